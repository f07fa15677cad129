"""Files of tasks wait for each other before they are stored, and never for what does not come."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from hipslake.steps import stored_together as module
from hipslake.steps.run_storage import own_run, run_storage
from hipslake.steps.stored_together import MOST_BYTES, AtOnce, Together, stored_together
from hipslake.storage.folder import Storage


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> ThreadPoolExecutor:
    monkeypatch.setattr(module, "_LONGEST", 60.0)
    return ThreadPoolExecutor(8)


def waits(future: Future[None]) -> bool:
    return not wait([future], 0.1).done


def test_files_wait_while_other_tasks_encode_and_go_together(pool: ThreadPoolExecutor) -> None:
    together = Together()
    with together.task(), together.task():
        first = pool.submit(together.before, 100)
        assert waits(first)
        with together.waiting():  # one has nothing else to do
            second = pool.submit(together.before, 100)
            assert waits(first)
            assert waits(second)
            with together.waiting():  # nor has the other
                wait([first, second], 10)

                assert first.done()
                assert second.done()
        third = pool.submit(together.before, 100)
        assert waits(third)  # not with those that are gone
        fourth = pool.submit(together.before, MOST_BYTES)
        wait([third, fourth], 10)
        assert third.done()
        assert fourth.done()
    wait([pool.submit(together.before, 1)], 10)  # nobody encodes
    assert together._bytes == 0


def test_a_task_that_fails_holds_no_file_of_others_back(pool: ThreadPoolExecutor) -> None:
    together = Together()
    with together.task():
        with pytest.raises(KeyError), together.task():
            raise KeyError
        mine = pool.submit(together.before, 1)
        assert waits(mine)
        with together.waiting():
            wait([mine], 10)
            assert mine.done()


def test_no_file_waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", 0.05)
    together, began = Together(), time.monotonic()
    with together.task():
        together.before(1)
    assert 0.05 <= time.monotonic() - began < 10


def test_files_wait_only_where_one_process_does_all_steps_in_a_store() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    store, disk = Storage.at(f"{uri}/catalog"), Storage.at("/tmp")
    assert type(stored_together(Storage.at(uri), store)) is AtOnce
    with own_run(f"{uri}/run"):
        folder = run_storage(f"{uri}/run")
        found = stored_together(folder, store)
        assert isinstance(found, Together)
        assert stored_together(folder, store) is found
        assert type(stored_together(folder, disk)) is AtOnce
    alone = AtOnce()
    with alone.task(), alone.waiting():
        alone.before(1)
