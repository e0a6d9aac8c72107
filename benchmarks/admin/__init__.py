"""What each page of the admin costs with a million jobs, beside a thousand."""
