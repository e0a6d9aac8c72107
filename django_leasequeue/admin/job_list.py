"""The list of jobs: quick whatever it is filtered by, since it looks at a part of the table."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, cast

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ALL_VAR, PAGE_VAR
from django.core.paginator import Page
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from django_leasequeue.admin import listing, periods, search
from django_leasequeue.admin import reach as reaching
from django_leasequeue.admin.listing import NarrowList, NewestPaginator
from django_leasequeue.admin.reach import Range, Reach, Wanted
from django_leasequeue.models import Job
from django_leasequeue.states import Status

# Of the address: when the jobs were dispatched, and the id at which the list begins.
DISPATCHED, FROM = "dispatched", "from"
# That a search looks for parts of names although something is called so.
PARTS = "parts"
_WANTED = dict(zip(Wanted._fields, Wanted._fields, strict=True)) | {
    "status": "status__exact"
}


class FoundPaginator(NewestPaginator):
    """Pages over rows whose ids are known, in order: each is read by its own ids."""

    def __init__(
        self,
        rows: QuerySet[Job],
        ids: list[int],
        per_page: int,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(rows, per_page, *args, **kwargs)
        self._rows, self._ids = rows, ids

    def page(self, number: int | str) -> "Page[Any]":
        """See Paginator."""
        number = self.validate_number(number)
        ids = self._ids[(number - 1) * self.per_page : number * self.per_page]
        return Page(self._rows.filter(pk__in=ids), number, self)

    @cached_property
    def _counted(self) -> int:
        return len(self._ids)


class JobList(NarrowList):
    """One page of the list, and what is said about how far it has looked."""

    model_admin: Any
    # How far it has looked; None if it begins with the newest job and leaves none out.
    reach: Reach | None = None
    # How far it has looked into arguments; None if it has not.
    arguments: Reach | None = None
    # The ids found; None where the table itself is the list.
    found: list[int] | None = None
    # Whether there are more than it has; and whether those found are called as was asked.
    is_cut = False
    is_whole = False
    period: periods.Period | None = None
    # The id at which it begins; 0: at the first there is.
    begin = 0
    where = Range()

    def get_filters_params(
        self, params: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """See ChangeList."""
        found = super().get_filters_params(params)
        found.pop(DISPATCHED, None)
        return found

    def get_query_string(
        self,
        new_params: dict[str, Any] | None = None,
        remove: Iterable[str] | None = None,
    ) -> str:
        """See ChangeList. Other pages begin where this one does, other lists do not."""
        if new_params and new_params.keys() <= {PAGE_VAR, ALL_VAR}:
            new_params = {**self.own, **new_params}
        return super().get_query_string(new_params, remove)

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """See ChangeList."""
        self.own = {
            key: request.GET[key] for key in (FROM, PARTS) if key in request.GET
        }
        for key in self.own:
            # Not among the parameters, which new searches and other filters keep.
            self.params.pop(key, None)
            self.filter_params.pop(key, None)
        text, self.query = self.query, ""  # which is searched for below
        try:
            rows = super().get_queryset(request, exclude_parameters)
        finally:
            self.query = text
        self.where = Range(oldest_first=rows.query.order_by[:1] in (("id",), ("pk",)))
        self._begin(self.own.get(FROM, "0"))
        rows = self._in_period(rows)
        if not (text.strip() or self.period or self.get_filters_params()):
            return self.where.of(rows)
        ids = self._ids(request, rows, text)
        self.is_cut = len(ids) > listing.MOST
        self.found = ids[: listing.MOST]
        found = rows.filter(pk__in=self.found)
        # For the paginator: a page's own ids are enough, and beside all that were found they
        # make PostgreSQL read a whole queue.
        found.found = rows, self.found  # type: ignore[attr-defined]
        return found

    def _ids(self, request: HttpRequest, rows: QuerySet[Job], text: str) -> list[int]:
        if text.strip() and PARTS not in self.own:
            ids = search.whole(rows, text, self.where)
            if ids:
                self.is_whole = True
                return ids
        jobs = Job._base_manager.using(rows.db).order_by()
        wanted = self._wanted()
        given = len(wanted) - wanted.count(None)
        alone = not (text.strip() or self.period)
        alone = alone and given == len(self.get_filters_params())
        self.reach = reaching.reach(jobs, wanted, self.where, alone)
        if not text.strip():
            return self.reach.ids(rows, listing.MOST)
        if self.model_admin.has_see_arguments_permission(request):
            self.arguments = self.reach.narrowed(jobs, search.ARGUMENTS)
        return search.parts(rows, text, self.reach, self.arguments)

    def get_results(self, request: HttpRequest) -> None:
        """See ChangeList."""
        super().get_results(request)
        if self.found is None:
            self.is_cut = self.paginator.is_cut

    # --- Where it looks

    def _begin(self, text: str) -> None:
        try:
            self.begin = int(text)
            if not 0 <= self.begin <= search.LARGEST_ID:
                raise ValueError
            if DISPATCHED in self.params:
                self.period = periods.Period.parse(self.params[DISPATCHED])
        except ValueError as error:
            raise IncorrectLookupParameters from error
        if self.begin and self.where.oldest_first:
            self.where = self.where.within(low=self.begin)
        elif self.begin:
            self.where = self.where.within(high=self.begin + 1)

    def _in_period(self, rows: QuerySet[Job]) -> QuerySet[Job]:
        if self.period is None:
            return rows
        jobs = Job._base_manager.using(rows.db)
        self.where = self.where.within(*periods.range_of(jobs, self.period))
        start, end = self.period.bounds()
        return rows.filter(created_at__gte=start, created_at__lt=end)

    def _wanted(self) -> Wanted:
        given = {
            name: self.filter_params[key][0]
            for name, key in _WANTED.items()
            if len(self.filter_params.get(key, ())) == 1
        }
        if given.get("status") not in Status.values:
            given.pop("status", None)
        return Wanted(**given)

    # --- What is said

    @property
    def notes(self) -> list[str]:
        """How far it has looked, if that is not all."""
        found = []
        if self.is_cut and self.where.oldest_first:
            text = _("There are more; the oldest %(count)d are listed.")
            found.append(text % {"count": self.result_count})
        elif self.is_cut:
            text = _("There are more; the newest %(count)d are listed.")
            found.append(text % {"count": self.result_count})
        if self.reach is not None and self.reach.last is not None and not self.is_cut:
            looked = {"count": f"{self.reach.looked:,}", "last": self.reach.last}
            if self.where.oldest_first:
                text = _("Looked through %(count)s jobs, up to job %(last)d.")
            else:
                text = _("Looked through %(count)s jobs, down to job %(last)d.")
            found.append(text % looked)
        if self.arguments is not None and self.arguments.last is not None:
            text = _("Looked into the arguments of the first %(count)s only.")
            found.append(text % {"count": f"{self.arguments.looked:,}"})
        return found

    @property
    def further(self) -> str | None:
        """The address of a list that begins where this one ends; None if nothing is beyond."""
        last = self._last()
        if last is None:
            return None
        step = 1 if self.where.oldest_first else -1
        kept = {PARTS: ""} if PARTS in self.own else {}
        return self.get_query_string({FROM: last + step, **kept})

    @property
    def look_for_parts(self) -> str | None:
        """The address of a search for parts, too, where only whole names were found."""
        return self.get_query_string({PARTS: ""}) if self.is_whole else None

    @property
    def first(self) -> str | None:
        """The address of the list that begins with the first; None if this is it."""
        return self.get_query_string() if self.begin else None

    def _last(self) -> int | None:
        if self.found is None:
            if not self.is_cut:
                return None
            return self.queryset.values_list("pk", flat=True)[
                self.result_count - 1 : self.result_count
            ].first()
        if self.is_cut:
            return self.found[-1]
        return self.reach.last if self.reach else None

    @cached_property
    def hierarchy(self) -> dict[str, Any]:
        """What Django's template of the date hierarchy shows."""
        jobs = Job._base_manager.using(self.queryset.db)
        times = [
            time
            for order in ("pk", "-pk")
            for time in jobs.order_by(order).values_list("created_at", flat=True)[:1]
        ]
        if not times:
            return {"show": False}
        zone = timezone.get_current_timezone()
        first, *_rest, last = sorted(
            one.astimezone(zone).replace(tzinfo=None) for one in times
        )
        longer, parts = periods.choices(self.period, first, last)
        back = None
        if self.period is not None:
            back = {
                "link": self._to(longer),
                "title": longer.title if longer else _("All dates"),
            }
        found = [{"title": one.title, "link": self._to(one)} for one in parts]
        if self.period is not None and not found:
            found = [{"title": self.period.title}]
        return {
            "show": True,
            "back": back,
            "choices": found,
            "field_name": cast(Any, Job._meta.get_field("created_at")).verbose_name,
        }

    def _to(self, period: periods.Period | None) -> str:
        new = {DISPATCHED: None if period is None else str(period)}
        return self.get_query_string(new)
