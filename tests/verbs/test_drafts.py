"""Submits without the application's code."""

from typing import Any

import pytest
from msgspec import Raw, json

from mainspring.core.job import Limit
from mainspring.core.options import parse_options
from mainspring.core.partition import format_id
from mainspring.errors import InvalidError, MainspringError
from mainspring.submit import group
from mainspring.verbs import documents as d
from mainspring.verbs.declaring import DeclaredKind, synchronise
from mainspring.verbs.drafts import Drafts
from verbs.site import Site


def raw(kind: str = "send", arguments: str = "{}", options: str = "{}") -> d.RawSubmit:
    return d.RawSubmit(kind=kind, arguments=Raw(arguments.encode()), options=Raw(options.encode()))


async def test_a_job_has_the_kinds_defaults_under_its_own_options(site: Site) -> None:
    job = await site.send(priority=9, delay="1h")
    found = await site.verbs().jobs.read(job)
    assert (found.queue, found.retries, found.tags, found.priority) == ("mail", 2, ("post",), 9)
    assert (found.due_at - found.created_at).total_seconds() == 3600


async def test_jobs_with_the_same_options_share_them_and_so_a_batch(on_sqlite: Site) -> None:
    requests = [raw(arguments=f'{{"n": {n}}}', options='{"priority": 3}') for n in range(100)]
    drafts = await on_sqlite.local().jobs.drafts(requests)
    good = [draft for draft in drafts if not isinstance(draft, MainspringError)]
    assert len(good) == 100
    assert len({id(draft.options) for draft in good}) == 1
    batches, _ = group(good, on_sqlite.clock.now())
    assert len(batches) == 1
    assert batches[0].arguments[:2] == [b'{"n":0}', b'{"n":1}']


BAD: dict[str, tuple[d.RawSubmit, type[MainspringError], str]] = {
    "unknown kind": (raw("sned"), InvalidError, "it knows send, work"),
    "a name twice": (raw(arguments='{"a":1,"a":2}'), InvalidError, "arguments: the name 'a'"),
    "no object": (raw(arguments="[1]"), InvalidError, "arguments: expected a JSON object"),
    "unknown option": (raw(options='{"colour":1}'), InvalidError, "colour: is no option"),
    "an option twice": (raw(options='{"key":"a","key":"b"}'), InvalidError, "options: the name 'key'"),
    "another tenant": (raw(options='{"tenant":"other"}'), InvalidError, "tenant: is 'other'"),
    "before 1970": (raw(options='{"at":"1969-12-31T00:00:00Z"}'), InvalidError, "at: is outside"),
    "after 9999": (raw(options='{"start_by":"9999-12-31T23:59:59.5Z"}'), InvalidError, "start_by: is outside"),
}


async def test_one_bad_job_of_a_batch_leaves_the_others_alone(on_sqlite: Site) -> None:
    jobs = on_sqlite.local().jobs
    requests = [raw(), *(request for request, _, _ in BAD.values()), raw(options='{"tenant":"default"}')]
    first, *bad, last = await jobs.drafts(requests)
    for problem, (_, error, words) in zip(bad, BAD.values(), strict=True):
        assert type(problem) is error
        assert words in str(problem)
    assert not isinstance(first, MainspringError)
    assert not isinstance(last, MainspringError)
    assert len(await jobs.submit([first, last])) == 2


_OF_TEXT = ("a name twice", "an option twice", "no object")  # values that somebody decoded cannot say this


@pytest.mark.parametrize("case", [case for case in BAD if case not in _OF_TEXT])
async def test_a_single_bad_job_is_raised(on_sqlite: Site, case: str) -> None:
    request, error, words = BAD[case]
    values: dict[str, Any] = json.decode(request.options)
    with pytest.raises(error, match=words):
        await on_sqlite.verbs().jobs.draft(d.SubmitRequest(kind=request.kind, options=values))


async def test_the_tenant_of_the_verbs_is_the_jobs(on_sqlite: Site) -> None:
    job = await on_sqlite.send(tenant="acme")
    assert (await on_sqlite.verbs("acme").jobs.read(job)).tenant == "acme"
    anybody = await on_sqlite.verbs(None).jobs.draft(d.SubmitRequest(kind="send", options={"tenant": "x"}))
    assert anybody.options.tenant == "x"


async def test_a_new_kind_is_known_at_once_and_new_defaults_soon(on_sqlite: Site) -> None:
    now_s = 100.0
    drafts = Drafts(on_sqlite.store, monotonic=lambda: now_s)
    (before,) = await drafts.make_many([raw("work")], None)
    assert not isinstance(before, MainspringError)
    changed = DeclaredKind("work", parse_options(queue="q2"), Limit())
    await synchronise(on_sqlite.store, [changed, DeclaredKind("new", parse_options(), Limit())], [], [])
    assert not isinstance((await drafts.make_many([raw("new")], None))[0], MainspringError)
    (after,) = await drafts.make_many([raw("work")], None)
    assert not isinstance(after, MainspringError)
    assert after.options.queue == "q2"
    await synchronise(on_sqlite.store, [DeclaredKind("work", parse_options(queue="q3"), Limit())], [], [])
    now_s += 6
    (later,) = await drafts.make_many([raw("work")], None)
    assert not isinstance(later, MainspringError)
    assert later.options.queue == "q3"


async def test_a_draft_of_the_application_belongs_to_the_tenant_it_is_submitted_for(on_sqlite: Site) -> None:
    jobs = on_sqlite.verbs("acme").jobs
    drafts = [await on_sqlite.verbs(None).jobs.draft(d.SubmitRequest(kind="send"))] * 3
    await jobs.submit(drafts)
    assert [job.tenant for job in (await jobs.list(d.JobQuery())).jobs] == ["acme"] * 3
    other = await on_sqlite.verbs("b").jobs.draft(d.SubmitRequest(kind="send"))
    with pytest.raises(InvalidError, match="tenant"):
        await jobs.submit([other])


async def test_the_arguments_of_a_type_are_checked_without_its_code_or_a_declaration(site: Site) -> None:
    jobs = site.verbs().jobs
    with pytest.raises(InvalidError, match="command: is missing") as caught:
        await jobs.submit([await jobs.draft(d.SubmitRequest(kind="script"))])
    assert caught.value.field == "arguments.command"
    good = d.SubmitRequest(kind="script", arguments={"command": ["echo"]}, options={"priority": 7})
    (made,) = await jobs.submit([await jobs.draft(good)])
    assert (await jobs.read(format_id(made.id))).priority == 7
