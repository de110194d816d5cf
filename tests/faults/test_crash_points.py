"""The process ends at every named step, the next one finds everything that was acknowledged and finishes it."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, json

from faults import crash
from faults.checks import check_effects, check_tables
from faults.child_crash import LIVED, RECOVERED, declare, node_at
from faults.harness import Site
from faults.places import Place
from mainspring.core.partition import format_id
from mainspring.core.timer import SECOND, to_micros
from mainspring.store.contract import EXPIRED

_VERBS = crash.writing_verbs("sqlite")
_FLOW = (
    "insert_jobs",
    "ripen_timers",
    "assign_jobs",
    "settle_attempts",
    "fire_schedules",
    "change_jobs",
    "renew_lease",
)
_POINTS = [
    *((verb, point, 1) for verb in _VERBS for point in crash.STORE_POINTS),
    *((verb, point, 2) for verb in _FLOW for point in crash.STORE_POINTS),
    *(("job", point, nth) for point in crash.JOB_POINTS for nth in (1, 4)),
    *(("open", point, 1) for point in crash.OPEN_POINTS),
]


Acks = dict[str, set[str]]  # what was promised before the process ended: verb -> ids


class Lives:
    """Processes that end at a step, one after the other; see `child_lives`."""

    def __init__(self, home: Site) -> None:
        self._parent = home.start("child_lives")
        self._parent.hear("ready")

    def live(self, site: Site, **config: Any) -> tuple[int, str]:
        """The exit code, and what it wrote to stderr."""
        errors = site.folder / "life.stderr"
        paths = {"folder": str(site.folder), "acks": str(site.folder / "acks")}
        life = {
            "config": {"store": site.place.settings, **paths, **config},
            "log": str(site.log),
            "errors": str(errors),
        }
        self._parent.tell(json.encode(life).decode())
        return int(self._parent.hear("ended")), errors.read_text()[-4000:]


@pytest.fixture(scope="module")
def home(shared_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("past"), shared_place)
    yield site
    site.close()


@pytest.fixture(scope="module")
def lives(home: Site) -> Lives:
    return Lives(home)


@pytest.fixture(scope="module")
def past(home: Site, lives: Lives) -> Site:
    """The store as a process left it that ended while jobs ran."""
    code, errors = lives.live(home, seed=True)
    assert code == crash.CRASHED, errors
    (home.folder / "over").touch()
    return home


def test_the_list_of_steps_is_found_in_the_code() -> None:
    assert crash.writing_verbs("postgres") == _VERBS
    assert set(_FLOW) < set(_VERBS)
    assert not {"close", "subscribe", "read_jobs", "list_jobs"} & set(_VERBS)
    assert len(_VERBS) >= 20


@pytest.mark.parametrize(("step", "point", "nth"), _POINTS, ids=lambda value: str(value).replace(" ", "-"))
def test_nothing_acknowledged_is_lost(
    step: str, point: str, nth: int, lives: Lives, past: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = _site(past, tmp_path, empty=step == "open")
    monkeypatch.setenv("FAULTS_LOG", str(site.log))
    try:
        code, errors = lives.live(site, step=step, point=point, nth=nth)
        reached = code == crash.CRASHED
        assert reached, f"child_crash never reaches {step} {point!r}: let it use that verb. {errors}"
        asyncio.run(_recover(site))
        _check(site, past, _read_acks(tmp_path / "acks"), step, point)
    finally:
        site.close()


def _check(site: Site, past: Site, promised: Acks, step: str, point: str) -> None:
    old = _read_acks(past.folder / "acks")["submit"]
    check_tables(site)
    _check_states(site, promised, old, step, point)
    _check_occurrences(site, promised)
    _check_service(site, promised, (step, point))
    _check_sealed(site, promised, (step, point))
    tally = check_effects(site, promised["submit"])
    assert tally.unexplained <= len(old), "only jobs that were pruned since may have been repeated without a record"


async def _recover(site: Site) -> None:
    """The next process: it waits for no lease, because its clock is later than that."""
    jobs = declare(site.jobs())
    async with node_at(jobs.app, RECOVERED) as node:
        await node.advance("5m")
        once = await jobs.quick.options(key="once").submit(4)
        await node.tick()
        assert (await once.status()).state == "completed"


def _site(past: Site, folder: Path, *, empty: bool) -> Site:
    """Where nothing has been yet, or everything is as in the past."""
    if empty:
        return Site(folder, past.place.fresh(folder))
    for name in ("effects.log", "acks"):
        shutil.copy(past.folder / name, folder / name)
    return Site(folder, past.place.copy(folder))


def _read_acks(path: Path) -> Acks:
    acks: Acks = defaultdict(set)
    for line in path.read_text().splitlines() if path.exists() else ():
        verb, id_ = line.split()
        acks[verb].add(id_)
    return acks


def _check_states(site: Site, promised: Acks, old: set[str], step: str, point: str) -> None:
    stored = {format_id(id_): state for id_, state in site.rows("select id, state from job")}
    for id_ in promised["submit"]:
        state = stored.get(id_, "pruned" if id_ in old else "lost")
        assert state in ("completed", "pruned"), f"{id_} is {state}"
    for id_ in promised["away"]:
        assert stored.get(id_) in ({"cancelled"} if id_ in promised["cancel"] else {"cancelled", "completed"})
    for id_ in promised["back"]:  # cancelled, then replayed
        if promised["retry"]:
            allowed = {"completed"}
        elif id_ in promised["cancel"] and (step, point) != ("change_jobs", "committed"):
            allowed = {"cancelled"}
        else:
            allowed = {"cancelled", "completed"}
        assert stored.get(id_) in allowed
    urgent = {format_id(id_) for (id_,) in site.rows("select id from job where priority = 9")}
    assert urgent >= promised["reprioritise"]
    yearly = site.value("select count(*) from schedule where name = 'yearly'")
    assert yearly == 0 or not promised["delete"]
    if promised["create"] and not promised["delete"]:
        assert yearly == 1 or (step, point) == ("delete_schedules", "committed")


def _check_service(site: Site, promised: Acks, ended: tuple[str, str]) -> None:
    """What was promised is there, once, as long as nothing has taken it away."""
    keys = dict(site.rows("select id, revoked_at from access_key"))
    assert set(keys) >= promised["key"]
    assert all(keys[id_] is not None for id_ in promised["revoke"])
    versions = site.value("select count(*) from template_version")
    if promised["drop"]:
        assert versions == 0
    elif promised["template"] and ended != ("delete_template", "committed"):
        assert versions == 2
        assert site.value("select current from template") == 1 or not promised["rollback"]
    chain = [number for (number,) in site.rows("select number from audit where tenant = 'default' order by 1")]
    assert chain == [*range(1, len(chain) + 1)]
    said = site.rows("select number, content from audit where tenant = 'guest'")
    assert [number for number, _ in said] == [1] or not promised["audit"]
    guests = [format_id(id_) for (id_,) in site.rows("select id from job where tenant = 'guest'")]
    if promised["erase"] or ended == ("erase_tenant", "committed"):
        assert guests == []
        assert said == [(1, None)]
    else:
        assert set(guests) >= promised["guest"]
    marks = [erased_at is not None for (erased_at,) in site.rows("select erased_at from tenant where name = 'guest'")]
    assert len(marks) == 1 or not promised["tenant"]
    assert all(marks) or not promised["erase"]


def _check_sealed(site: Site, promised: Acks, ended: tuple[str, str]) -> None:
    """As long as nothing has taken it away; and what took it away stays so."""
    homes = [value for (value,) in site.rows("select value from setting where name = 'home'")]
    assert homes == ["here"] or not promised["agree"]
    secrets = [bytes(sealed) for (sealed,) in site.rows("select sealed from secret")]
    if promised["forget"] or ended == ("delete_secrets", "committed"):
        assert secrets == []
    elif promised["rewrap"] or ended == ("replace_sealed", "committed"):
        assert secrets == [b"sealed:b"]
    elif promised["secret"]:
        assert secrets == [b"sealed:a"]
    sealed = [bool(flag) for (flag,) in site.rows("select sealed from tenant where name = 'vault'")]
    assert sealed == [True] or not promised["seal"]
    results = {format_id(job): bytes(data) for job, data in site.rows("select job, data from result")}
    assert all(results[job] == EXPIRED for job in promised["expire"])


class _Occurring(Struct):
    occurrence_at: int | None = None


def _check_occurrences(site: Site, promised: Acks) -> None:
    """One job per occurrence: every minute from the first to the watermark, none twice, none left out."""
    made = site.rows("select s.options from spec s join job j on j.id = s.job")
    found = [json.decode(options, type=_Occurring).occurrence_at for (options,) in made]
    times = sorted(at for at in found if at is not None)
    assert [later - earlier for earlier, later in pairwise(times)] == [60 * SECOND] * (len(times) - 1)
    assert times[-1] == site.value("select watermark_at from schedule where name = 'minutely'")
    assert times[-1] == to_micros("end", RECOVERED + timedelta(minutes=5))
    if promised["started"]:
        assert times[0] == to_micros("first", LIVED + timedelta(minutes=1))
    assert site.value("select count(*) from missed") == 0
