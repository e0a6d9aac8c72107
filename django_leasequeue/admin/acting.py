"""What people do to jobs: from the list and from a job's page, once confirmed."""

import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, router, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_leasequeue.admin import sent, shown
from django_leasequeue.admin.listing import HAS_LIST_OF_CRUMBS, LookOnlyAdmin
from django_leasequeue.admin.origin import may, of_admin
from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.taking_away import RELEASE, REMOVE
from django_leasequeue.admin.verbs import CANCEL, RETRY, RUN, Outcomes, Verb
from django_leasequeue.models import Job
from django_leasequeue.origin import dispatched_by
from django_leasequeue.states import Status

logger = logging.getLogger("django_leasequeue.admin")

# Jobs that one action changes, as many as the list has; it can be done again.
MOST = 10_000
# Jobs in one go, and ids that are named in one message.
ROWS, NAMED = 500, 20


class ActingAdmin(LookOnlyAdmin):
    """Jobs, with what can be done to them; each verb asks first."""

    verbs = (CANCEL, RETRY, RUN, RELEASE, REMOVE)
    actions = tuple(verb.name for verb in verbs)

    # --- Who may

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whether the user may cancel the jobs that they may see."""
        return may(request, "leasequeue.cancel_job")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run the jobs again that they may see."""
        return may(request, "leasequeue.retry_job")

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run the delayed jobs now that they may see."""
        return may(request, "leasequeue.run_job")

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Whether the user may take the jobs from their workers that they may see."""
        return may(request, "leasequeue.release_job")

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Whether the user may delete the jobs that they may see.

        That is Django's own permission, but not its own way to do it, which would ask no
        job whether it runs: see has_delete_permission().
        """
        return may(request, "leasequeue.delete_job")

    def _may(self, request: HttpRequest, verb: Verb) -> bool:
        return getattr(self, f"has_{verb.name}_permission")(request)

    # --- From the list

    @admin.action(
        description=gettext_lazy("Cancel the selected jobs"), permissions=["cancel"]
    )
    def cancel(
        self, request: HttpRequest, queryset: QuerySet[Job]
    ) -> HttpResponse | None:
        """Cancel those that have not ended."""
        return self._from_list(request, queryset, CANCEL)

    @admin.action(
        description=gettext_lazy("Run the selected jobs again"), permissions=["retry"]
    )
    def retry(
        self, request: HttpRequest, queryset: QuerySet[Job]
    ) -> HttpResponse | None:
        """Run those again that have ended."""
        return self._from_list(request, queryset, RETRY)

    @admin.action(
        description=gettext_lazy("Run the selected delayed jobs now"),
        permissions=["run"],
    )
    def run(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Make those due that are delayed."""
        return self._from_list(request, queryset, RUN)

    @admin.action(
        description=gettext_lazy("Take the selected jobs from their workers"),
        permissions=["release"],
    )
    def release(
        self, request: HttpRequest, queryset: QuerySet[Job]
    ) -> HttpResponse | None:
        """Take those away that run."""
        return self._from_list(request, queryset, RELEASE)

    @admin.action(
        description=gettext_lazy("Delete the selected jobs"), permissions=["remove"]
    )
    def remove(
        self, request: HttpRequest, queryset: QuerySet[Job]
    ) -> HttpResponse | None:
        """Remove the rows of those that wait or have ended."""
        return self._from_list(request, queryset, REMOVE)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Remove none that runs, should a subclass let Django's own action be used."""
        jobs: Any = queryset
        jobs.remove()

    def delete_model(self, request: HttpRequest, obj: Job) -> None:
        """See delete_queryset()."""
        Job.objects.using(obj._state.db).filter(pk=obj.pk).remove()

    def _from_list(
        self, request: HttpRequest, queryset: QuerySet[Job], verb: Verb
    ) -> HttpResponse | None:
        """Ask, with the ids in the form; and do it to exactly these once it comes back."""
        if "jobs" in request.POST:
            self._act(request, verb, sent.ids(request.POST["jobs"], MOST))
            return None
        rows = list(queryset.values_list("pk", "status", "claims")[: MOST + 1])
        found = {pk: status for pk, status, _ in rows[:MOST]}
        return self._ask(
            request,
            verb,
            found,
            more=len(rows) > MOST,
            back=request.get_full_path(),
            hidden={
                "action": verb.name,
                "select_across": "1",
                ACTION_CHECKBOX_NAME: str(next(iter(found), "")),
                "jobs": ",".join(map(str, found)),
                **_of_runs(verb, {pk: claims for pk, _, claims in rows[:MOST]}),
            },
        )

    # --- From a job's page

    def get_urls(self) -> list[URLPattern]:
        """See ModelAdmin."""
        own = [
            path(
                f"<int:pk>/{verb.name}/",
                self.admin_site.admin_view(partial(self._of_one, verb=verb)),
                name=_address(verb),
            )
            for verb in self.verbs
        ]
        return own + super().get_urls()

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: JobRow | None = None,
    ) -> HttpResponse:
        """See ModelAdmin. Offers the verbs that are legal for the job."""
        context["verbs"] = [
            {
                "label": verb.label,
                "url": reverse(
                    f"{self.admin_site.name}:{_address(verb)}", args=[obj.pk]
                ),
            }
            for verb in self.verbs
            if obj is not None
            and obj.status in verb.legal
            and verb.fits(obj)
            and self._may(request, verb)
        ]
        return super().render_change_form(request, context, add, change, form_url, obj)

    def _of_one(self, request: HttpRequest, pk: int, verb: Verb) -> HttpResponse:
        job = self.get_object(request, str(pk))
        if not (self.has_view_permission(request, job) and self._may(request, verb)):
            raise PermissionDenied
        site = self.admin_site.name
        if job is None:
            self._tell(request, verb, {"gone": {pk: None}})
            return HttpResponseRedirect(reverse(f"{site}:leasequeue_job_changelist"))
        back = reverse(f"{site}:leasequeue_job_change", args=[pk])
        if request.method != "POST":
            found = {pk: job.status}
            of_run = _of_runs(verb, {pk: job.claims})
            return self._ask(
                request, verb, found, back=back, subtitle=job, hidden=of_run
            )
        if pk in self._act(request, verb, [pk]).get("removed", ()):
            back = reverse(f"{site}:leasequeue_job_changelist")
        return HttpResponseRedirect(back)

    # --- To ask, to do, to tell

    def _ask(
        self,
        request: HttpRequest,
        verb: Verb,
        found: dict[int, str],
        *,
        back: str,
        more: bool = False,
        subtitle: Job | None = None,
        hidden: dict[str, Any] | None = None,
    ) -> TemplateResponse:
        """Return the page that says what would be done to the jobs, `found` by status."""
        numbers = Counter(found.values())
        order = [*(value for value in Status.values if value in numbers)]
        order += sorted(numbers.keys() - set(order))
        unknown = _("not changed: a status that only a newer release knows")
        context = {
            **self.admin_site.each_context(request),
            "title": verb.title,
            "subtitle": subtitle,
            "opts": self.opts,
            "crumbs": self._crumbs(subtitle),
            "has_list_of_crumbs": HAS_LIST_OF_CRUMBS,
            "label": verb.label,
            "rows": [
                {
                    "status": shown.badge(status),
                    "count": numbers[status],
                    "fate": verb.fates.get(status, unknown),
                }
                for status in order
            ],
            "changeable": sum(numbers[status] for status in verb.legal),
            "most": MOST if more else None,
            "hidden": (hidden or {}).items(),
            "back": back,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/leasequeue/job/confirm.html", context)

    def _crumbs(self, job: Job | None) -> Iterator[dict[str, Any]]:
        site = self.admin_site.name
        label = capfirst(self.opts.verbose_name_plural)
        yield {"url": reverse(f"{site}:leasequeue_job_changelist"), "label": label}
        if job is not None:
            url = reverse(f"{site}:leasequeue_job_change", args=[job.pk])
            yield {"url": url, "label": str(job)}

    def _act(self, request: HttpRequest, verb: Verb, ids: list[int]) -> Outcomes:
        """Do it, log it for each job that it has changed, tell, and return it."""
        total: Outcomes = {}
        alias = router.db_for_write(Job)
        of_runs = {}
        if verb.of_this_run:
            of_runs["claims"] = sent.claims(request.POST.get("runs", ""))
        for start in range(0, len(ids), ROWS):
            some = set(ids[start : start + ROWS])
            rows = self.get_queryset(request).using(alias).order_by()
            jobs = {job.pk: job for job in rows.filter(pk__in=some).only("task")}
            chosen = Job.objects.using(alias).filter(pk__in=[*jobs])
            try:
                with dispatched_by(of_admin(request)):
                    part = verb.do(chosen, **of_runs)
            except DatabaseError:
                if transaction.get_connection(alias).in_atomic_block:
                    raise
                logger.exception("Not all jobs could be changed (%s).", verb.name)
                total["refused"] = dict.fromkeys(ids[start:])
                break
            part.setdefault("gone", {}).update(dict.fromkeys(some - jobs.keys()))
            for kind, of_kind in part.items():
                total.setdefault(kind, {}).update(of_kind)
                self._log(
                    request, [jobs[pk] for pk in of_kind if pk in jobs], verb, kind
                )
        self._tell(request, verb, total)
        return total

    def _log(
        self, request: HttpRequest, jobs: list[Job], verb: Verb, kind: str
    ) -> None:
        text = verb.outcomes[kind].logged
        if jobs and text:
            user: Any = request.user  # the site lets no others in
            LogEntry.objects.log_actions(
                user.pk,
                jobs,
                verb.flag,
                change_message=text,
            )

    def _tell(self, request: HttpRequest, verb: Verb, total: Outcomes) -> None:
        for kind, outcome in verb.outcomes.items():
            if ids := total.get(kind):
                text = outcome.told % {"count": len(ids), "jobs": _named(ids)}
                level = messages.SUCCESS if outcome.logged else messages.WARNING
                self.message_user(request, text, level)


def _address(verb: Verb) -> str:
    return f"leasequeue_job_{verb.name}"


def _of_runs(verb: Verb, claims: dict[int, int]) -> dict[str, str]:
    return {"runs": sent.runs(claims)} if verb.of_this_run else {}


def _named(ids: dict[int, int | None]) -> str:
    some = [
        str(pk)
        if ids[pk] is None
        else _("%(job)s (job %(other)s has it)") % {"job": pk, "other": ids[pk]}
        for pk in sorted(ids)[:NAMED]
    ]
    text = ", ".join(some)
    if len(ids) <= NAMED:
        return text
    return _("%(jobs)s and %(count)d more") % {"jobs": text, "count": len(ids) - NAMED}
