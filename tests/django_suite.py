"""Which test here stands for which of those that Django 6.1 has for tasks (tests/tasks/).

Django's run against its own backends; what they expect of a backend is expected here of this
package's. SUITE: the file there -> its tests -> the tests here, or why there is none. The same
of django-tasks' tests of its database backend, as far as they are about a backend and not about
its tables, its command's options or its locks, of which this package has its own.
tests/unit/test_django_suite.py sees to it that the tests named here exist.
"""

from typing import NamedTuple


class Left(NamedTuple):
    """A test that nothing here stands for."""

    reason: str


_TASKS = {
    "test_using_correct_backend": "tasks::test_the_backend_is_ours",
    "test_task_decorator": "tasks::test_the_decorator_makes_tasks_of_ours",
    "test_enqueue_task": "tasks::test_enqueue",
    "test_enqueue_task_async": "tasks::test_enqueue",
    "test_enqueue_with_invalid_argument": "tasks::test_arguments_that_are_not_json",
    "test_aenqueue_with_invalid_argument": "tasks::test_arguments_that_are_not_json",
    "test_using_priority": "tasks::test_using_changes_one_thing",
    "test_using_queue_name": "tasks::test_using_changes_one_thing",
    "test_using_run_after": "tasks::test_using_changes_one_thing",
    "test_using_unknown_backend": "tasks::test_a_backend_that_is_not_there",
    "test_using_missing_backend": "tasks::test_a_backend_that_is_not_there",
    "test_using_creates_new_instance": "tasks::test_using_makes_another_task",
    "test_chained_using": "tasks::test_using_of_using",
    "test_refresh_result": "tasks::test_refresh_of_what_has_not_changed",
    "test_naive_datetime": "tasks::test_run_after_needs_a_time_zone",
    "test_invalid_priority": "tasks::test_priorities",
    "test_unknown_queue_name": "tasks::test_queues_are_those_of_the_backend",
    "test_call_task": "tasks::test_call_runs_the_function",
    "test_call_task_async": "tasks::test_call_runs_the_function",
    "test_call_async_task": "tasks::test_call_runs_the_function",
    "test_call_async_task_sync": "tasks::test_call_runs_the_function",
    "test_get_result": "tasks::test_results_are_got",
    "test_get_result_async": "tasks::test_results_are_got",
    "test_get_missing_result": "tasks::test_results_that_do_not_exist",
    "test_get_incorrect_result": "tasks::test_results_of_another_task",
    "test_get_incorrect_result_async": "tasks::test_results_of_another_task",
    "test_invalid_function": "tasks::test_functions_that_are_no_tasks",
    "test_get_backend": "tasks::test_a_task_knows_its_backend",
    "test_name": "tasks::test_name_and_path",
    "test_module_path": "tasks::test_name_and_path",
    "test_pickle_task": "tasks::test_pickled_tasks",
    "test_unpickle_arbitrary_string": "tasks::test_what_is_no_pickled_task",
    "test_unpickle_non_task_object": "tasks::test_what_is_no_pickled_task",
    "test_pickle_task_result": "tasks::test_pickled_results",
    "test_no_backends": "tasks::test_no_backends",
    "test_task_error_invalid_exception": "tasks::test_errors_whose_class_is_none",
    "test_task_error_unknown_module": "tasks::test_errors_whose_class_is_none",
    "test_takes_context_without_taking_context": "tasks::test_the_context_needs_its_parameter",
    "test_run_after_in_decorator": "tasks::test_run_after_is_not_for_the_decorator",
}
_IMMEDIATE = {
    "test_using_correct_backend": "tasks::test_the_backend_is_ours",
    "test_enqueue_task": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_enqueue_task_async": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_catches_exception": "runs::test_errors",
    "test_throws_keyboard_interrupt": Left(
        "A worker must not end for what a task raises: here it is a failed attempt, which "
        "runs::test_errors shows."
    ),
    "test_complex_exception": "runs::test_an_error_that_holds_another",
    "test_complex_return_value": "runs::test_return_values_that_are_no_json",
    "test_result": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_result_async": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_cannot_get_result": Left("This backend can: tasks::test_results_are_got."),
    "test_cannot_refresh_result": Left(
        "This backend can: tasks::test_refresh_of_what_has_not_changed."
    ),
    "test_cannot_pass_run_after": Left(
        "This backend can: runs::test_run_after_and_priority."
    ),
    "test_enqueue_logs": "runs::test_what_is_logged",
    "test_failed_logs": "runs::test_what_is_logged",
    "test_successful_task_no_none_in_logs": "runs::test_what_is_logged",
    "test_takes_context": "runs::test_the_context",
    "test_context": "runs::test_the_context",
    "test_validate_on_enqueue": "tasks::test_a_task_is_validated_again_as_it_is_enqueued",
    "test_validate_on_aenqueue": "tasks::test_a_task_is_validated_again_as_it_is_enqueued",
    "test_doesnt_wait_until_transaction_commit_by_default": "runs::test_in_a_transaction",
}
_DUMMY = {
    "test_using_correct_backend": "tasks::test_the_backend_is_ours",
    "test_enqueue_task": "tasks::test_enqueue",
    "test_enqueue_task_async": "tasks::test_enqueue",
    "test_get_result": "tasks::test_results_are_got",
    "test_get_result_async": "tasks::test_results_are_got",
    "test_refresh_result": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_refresh_result_async": "runs::test_the_context_of_a_coroutine",
    "test_get_missing_result": "tasks::test_results_that_do_not_exist",
    "test_enqueue_logs": "tasks::test_enqueue_is_logged",
    "test_errors": "tasks::test_enqueue",
    "test_validate_disallowed_async_task": "tasks::test_async_tasks_where_they_are_not_supported",
    "test_check": "tasks::test_nothing_is_wrong_with_it",
    "test_takes_context": "tasks::test_a_task_with_context_is_enqueued_like_any_other",
    "test_clear": "tasks::test_results_that_were_removed",
    "test_validate_on_enqueue": "tasks::test_a_task_is_validated_again_as_it_is_enqueued",
    "test_validate_on_aenqueue": "tasks::test_a_task_is_validated_again_as_it_is_enqueued",
    "test_doesnt_wait_until_transaction_commit_by_default": "runs::test_in_a_transaction",
}
_CUSTOM = {
    "test_using_correct_backend": "options::test_options_for_all_tasks_of_a_backend",
    "test_enqueue_async_task_on_non_async_backend": (
        "tasks::test_async_tasks_where_they_are_not_supported"
    ),
    "test_backend_does_not_support_priority": (
        "tasks::test_priorities_where_they_are_not_supported"
    ),
    "test_options": "options::test_options_for_all_tasks_of_a_backend",
    "test_no_enqueue": Left(
        "It is about BaseTaskBackend, whose enqueue() is abstract."
    ),
    "test_custom_task_default_values": "options::test_options_in_the_decorator",
    "test_custom_task_with_custom_values": "options::test_options_in_the_decorator",
    "test_custom_task_with_standard_and_custom_values": (
        "options::test_one_function_has_one_timeout"
    ),
    "test_custom_task_invalid_kwarg": "options::test_options_that_do_not_exist",
}
_DATABASE = {
    "test_using_correct_backend": "tasks::test_the_backend_is_ours",
    "test_enqueue_task": "tasks::test_enqueue",
    "test_enqueue_task_async": "tasks::test_enqueue",
    "test_get_result": "tasks::test_results_are_got",
    "test_get_result_async": "tasks::test_results_are_got",
    "test_refresh_result": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_refresh_result_async": "runs::test_the_context_of_a_coroutine",
    "test_get_missing_result": "tasks::test_results_that_do_not_exist",
    "test_async_get_missing_result": "tasks::test_results_that_do_not_exist",
    "test_invalid_uuid": "tasks::test_results_that_do_not_exist",
    "test_async_invalid_uuid": "tasks::test_results_that_do_not_exist",
    "test_meaning_of_life_view": "tasks::test_results_are_got",
    "test_get_result_from_different_request": "tasks::test_results_are_got",
    "test_invalid_task_path": "options::test_a_row_names_registered_tasks_only",
    "test_missing_task_path": "options::test_a_row_names_registered_tasks_only",
    "test_check": "tasks::test_nothing_is_wrong_with_it",
    "test_database_backend_app_missing": "checks::test_e401_the_app_is_missing",
    "test_priority_range_check": Left(
        "Priorities are checked by dispatch, not by the table: tasks::test_priorities."
    ),
    "test_doesnt_wait_until_transaction_commit": "runs::test_in_a_transaction",
    "test_wait_until_transaction_commit": Left(
        "ENQUEUE_ON_COMMIT did not come into Django: a job is stored in the caller's "
        "transaction, and seen at its commit."
    ),
    "test_wait_until_transaction_by_default": Left("As the one before."),
    "test_task_specific_enqueue_on_commit": Left("As the one before."),
    "test_enqueue_logs": "tasks::test_enqueue_is_logged",
    "test_run_enqueued_task": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_batch_processes_all_tasks": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_no_tasks": Left("Of the worker: tests/database/test_runjobs.py."),
    "test_doesnt_process_different_queue": "runs::test_queues_of_the_worker",
    "test_process_all_queues": "runs::test_tasks_of_both_decorators_in_one_worker",
    "test_failing_task": "runs::test_errors",
    "test_complex_exception": "runs::test_an_error_that_holds_another",
    "test_doesnt_process_different_backend": Left(
        "Here backends are ways to enqueue, and queues are what workers choose by."
    ),
    "test_unknown_backend": Left("runjobs has no --backend."),
    "test_incorrect_backend": Left("runjobs has no --backend."),
    "test_negative_interval": Left("runjobs has no --interval."),
    "test_infinite_interval": Left("runjobs has no --interval."),
    "test_fractional_interval": Left("runjobs has no --interval."),
    "test_run_after": "runs::test_run_after_and_priority",
    "test_run_after_priority": "runs::test_run_after_and_priority",
    "test_verbose_logging": "runs::test_what_is_logged",
    "test_worker_doesnt_exit": "runs::test_a_task_that_leaves_its_process",
    "test_worker_with_locked_rows": Left("Of claims: tests/concurrency/test_claim.py."),
}
SUITE = {
    "test_tasks.py": _TASKS,
    "test_immediate_backend.py": _IMMEDIATE,
    "test_dummy_backend.py": _DUMMY,
    "test_custom_backend.py": _CUSTOM,
    "django-tasks: test_database_backend.py": _DATABASE,
}
FILES = {
    "tasks": "tests/database/test_backend_tasks.py",
    "runs": "tests/database/test_backend_runs.py",
    "options": "tests/database/test_backend_options.py",
    "checks": "tests/unit/test_backend_checks.py",
}


def main():
    """Print how many have a test here, and each that has none with the reason."""
    for file, tests in SUITE.items():
        left = {name: one for name, one in tests.items() if isinstance(one, Left)}
        print(f"{file}: {len(tests) - len(left)} of {len(tests)}")
        for name, one in left.items():
            print(f"    {name}: {one.reason}")


if __name__ == "__main__":
    main()
