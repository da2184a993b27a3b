"""Runtime: futures, asyncio, deadlines, overload, cancellation, statistics, ends of all kinds."""

import asyncio
import concurrent.futures
import gc
import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import linear, random, right, slow

import moire

X = random(1, 4)
BIG = random(512, 512)


@pytest.fixture(scope="module")
def slow_model():
    return slow()


def test_a_future_of_the_answer(path):
    with moire.Runtime(threads=1) as runtime:
        loaded = runtime.load(path, qos_ms=50)
        assert loaded.name == "linear.onnx" and loaded.inputs[0].shape == (1, 4)
        x = X.copy()
        future = runtime.submit("linear.onnx", {"x": x}, ["z"])
        x[:] = 0  # it was copied
        (z,) = future.result(30)
        assert numpy.allclose(z, right(linear(), {"x": X})[1], 1e-4, 1e-5)
        assert future.timing.total_ms >= future.timing.compute_ms > 0
        assert numpy.array_equal(runtime.run("linear.onnx", {"x": X}, ["z"])[0], z)


def test_many_futures_from_many_threads():
    data = linear(["batch", 4])
    with moire.Runtime(threads=2) as runtime:
        runtime.load(data, "a", qos_ms=100)
        runtime.load(data, "b", best_effort=True)
        called = []

        def work(k):
            futures = []
            for i in range(50):
                x = random(1 + i % 2, 4, seed=1000 * k + i)
                futures.append((x, runtime.submit("ab"[i % 2], {"x": x})))
                futures[-1][1].add_done_callback(called.append)
            for x, future in futures:
                assert numpy.allclose(future.result(60)[0], right(data, {"x": x})[0], 1e-4, 1e-5)
            return True

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(6)))
        runtime.drain()
    assert len(called) == 300 and len(set(map(id, called))) == 300  # each exactly once


def test_asyncio():
    async def all_of_them(runtime):
        inputs = [random(1, 4, seed=k) for k in range(20)]
        answers = await asyncio.gather(*(runtime.run_async("a", {"x": x}) for x in inputs))
        return all(
            numpy.allclose(y, right(linear(), {"x": x})[0], 1e-4, 1e-5)
            for x, (y, _) in zip(inputs, answers)
        )

    with moire.Runtime(threads=1) as runtime:
        runtime.load(linear(), "a")
        assert asyncio.run(all_of_them(runtime))


def test_an_asyncio_task_that_is_cancelled_cancels_its_query(slow_model):
    async def cancelled(runtime):
        tasks = [asyncio.ensure_future(runtime.run_async("s", {"x": BIG})) for _ in range(6)]
        await asyncio.sleep(0)  # they are submitted
        tasks[-1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[-1]
        await asyncio.gather(*tasks[:-1])

    with moire.Runtime(threads=1) as runtime:
        runtime.load(slow_model, "s")
        asyncio.run(cancelled(runtime))
        runtime.drain()
        counts = runtime.stats("s")["counts"]
        assert counts["ok"] == 5 and counts["cancelled"] == 1 and counts["open"] == 0


def test_a_cancelled_future_stays_cancelled(slow_model):
    with moire.Runtime(threads=1) as runtime:
        runtime.load(slow_model, "s")
        futures = [runtime.submit("s", {"x": BIG}) for _ in range(5)]
        assert futures[-1].cancel() and futures[-1].cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            futures[-1].result(0)
        done, _ = concurrent.futures.wait(futures[:-1], 60)
        assert len(done) == 4 and not futures[0].cancel()
        runtime.drain()
        assert runtime.stats("s")["counts"]["cancelled"] == 1


def test_overload_is_refused_by_name(slow_model):
    with moire.Runtime(threads=1) as runtime:
        runtime.load(slow_model, "s", queue=2)
        futures = []
        with pytest.raises(moire.Busy):
            for _ in range(100):
                futures.append(runtime.submit("s", {"x": BIG}))
        assert 2 <= len(futures) < 100
        assert all(future.result(60) for future in futures)
        assert runtime.submit("s", {"x": BIG}).result(60)  # there is room again


def test_deadlines_and_sheds(slow_model):
    with moire.Runtime(threads=1) as runtime:
        runtime.load(slow_model, "s")
        first = runtime.submit("s", {"x": BIG})
        late = runtime.submit("s", {"x": BIG}, deadline_ms=0.001)
        with pytest.raises(moire.Expired):
            late.result(60)
        assert first.result(60) and late.timing is None
        runtime.load(slow_model, "shed", qos_ms=0.01, shed_late=True)
        with pytest.raises(moire.Shed):
            for _ in range(20):
                runtime.submit("shed", {"x": BIG}).result(60)


def test_wrong_names_and_arguments_are_said(path):
    with moire.Runtime(threads=1) as runtime:
        with pytest.raises(moire.InvalidArgument, match="no model 'a'; loaded: none"):
            runtime.submit("a", {})
        runtime.load(path, "a")
        with pytest.raises(moire.InvalidArgument, match="there is a model 'a'"):
            runtime.load(path, "a")
        with pytest.raises(moire.ShapeError):
            runtime.submit("a", {"x": random(2, 4)})
        with pytest.raises(moire.InvalidArgument, match="priority"):
            runtime.submit("a", {"x": X}, priority="high")
        for name in (5, "a\0b"):
            with pytest.raises(moire.InvalidArgument):
                runtime.load(path, name)
        for ms in (float("nan"), float("inf"), "soon", 1e300):
            with pytest.raises(moire.InvalidArgument, match="deadline_ms cannot be"):
                runtime.submit("a", {"x": X}, deadline_ms=ms)
            with pytest.raises(moire.InvalidArgument, match="qos_ms cannot be"):
                runtime.load(path, "b", qos_ms=ms)
        with pytest.raises(moire.Expired):
            runtime.submit("a", {"x": X}, deadline_ms=-5).result(30)
        assert runtime.names() == ["a"] and runtime.submit("a", {"x": X}).result(30)
    for arguments in (
        {"policy": "none"},
        {"limits": {"no": 1}},
        {"limits": {"queue": "a"}},
        {"policy": 5},
        {"objective": "some"},
    ):
        with pytest.raises(moire.InvalidArgument):
            moire.Runtime(threads=1, **arguments)


def test_statistics_add_up(path):
    with moire.Runtime(threads=1, limits={"queue": 50}) as runtime:
        runtime.load(path, "a", qos_ms=1000)
        for _ in range(10):
            runtime.run("a", {"x": X})
        told, all_told = runtime.stats("a"), runtime.stats()
        assert told["counts"]["ok"] == told["times"]["total"]["count"] == 10
        assert told["inputs"] == {"x": (1, 4)} and told["layers"] > 0 and told["slow"] == ""
        assert 0 < told["times"]["total"]["p50_ns"] <= told["times"]["total"]["max_ns"]
        assert (
            all_told["counts"]["ok"] == 10 and all_told["tenants"] == 1 and all_told["cores"] == 1
        )


def test_statistics_of_several_shapes():
    with moire.Runtime(threads=1) as runtime:
        runtime.load(linear(["batch", 4]), "a")
        for n in (1, 2, 2):
            runtime.run("a", {"x": random(n, 4)})
        told = runtime.stats("a")
        assert told["counts"]["ok"] == 3
        assert sorted(one["counts"]["ok"] for one in told["shapes"]) == [1, 2]


def test_a_model_comes_and_goes(slow_model, path):
    with moire.Runtime(threads=1) as runtime:
        runtime.load(slow_model, "s")
        runtime.load(path, "a")
        kept = [runtime.submit("s", {"x": BIG}) for _ in range(3)]
        runtime.unload("s")
        assert all(future.result(10) for future in kept)
        runtime.load(slow_model, "s")
        ended = [runtime.submit("s", {"x": BIG}) for _ in range(3)]
        runtime.unload("s", drain=False)
        assert {type(future.exception(10)) for future in ended} <= {moire.Unloaded, type(None)}
        assert isinstance(ended[-1].exception(), moire.Unloaded)
        assert runtime.names() == ["a"] and runtime.run("a", {"x": X})


def test_close_answers_or_ends_what_is_accepted(slow_model):
    runtime = moire.Runtime(threads=1)
    runtime.load(slow_model, "s")
    futures = [runtime.submit("s", {"x": BIG}) for _ in range(4)]
    runtime.close()
    assert all(future.done() and future.result(0) for future in futures)
    runtime = moire.Runtime(threads=1)
    runtime.load(slow_model, "s")
    futures = [runtime.submit("s", {"x": BIG}) for _ in range(6)]
    runtime.close(drain=False)
    assert all(future.done() for future in futures)
    assert isinstance(futures[-1].exception(), moire.Closed)
    for call in (
        lambda: runtime.submit("s", {"x": BIG}),
        lambda: runtime.load(linear(["batch", 4]), "a"),
        lambda: runtime.stats(),
        runtime.drain,
    ):
        with pytest.raises(moire.Closed):
            call()


def test_close_while_others_submit(slow_model):
    runtime = moire.Runtime(threads=1)
    runtime.load(slow_model, "s")
    runtime.load(linear(["batch", 4]), "a")
    futures, refused = [], []

    def work(k):
        try:
            for i in range(100000):
                name, x = ("s", BIG) if i % 50 == 0 else ("a", random(1 + (i + k) % 5, 4))
                try:
                    futures.append(runtime.submit(name, {"x": x}))
                except moire.Busy:
                    pass
        except moire.Closed:
            refused.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    while len(futures) < 100:
        pass
    runtime.close(drain=False)
    for thread in threads:
        thread.join(60)
    assert len(refused) == 4 and all(future.done() for future in futures)


def test_a_callback_may_close_and_drop_everything(path):
    gone = threading.Event()
    holder = [moire.Runtime(threads=1)]
    holder[0].load(path, "a")

    def close(future):
        holder.pop().close()
        gc.collect()
        gone.set()

    future = holder[0].submit("a", {"x": X})
    future.add_done_callback(close)
    assert gone.wait(30) and future.result(0)


def test_a_callback_may_close_while_another_thread_does(slow_model):
    """Both return: the thread that tells answers does not wait for itself."""
    runtime = moire.Runtime(threads=1)
    runtime.load(slow_model, "s")
    for _ in range(4):
        runtime.submit("s", {"x": BIG}).add_done_callback(lambda future: runtime.close())
    other = threading.Thread(target=runtime.close, daemon=True)
    other.start()
    other.join(60)
    assert not other.is_alive()


def test_cancels_and_answers_at_once():
    """However they meet, a future ends once, and the counts of the library add up."""
    with moire.Runtime(threads=2) as runtime:
        runtime.load(linear(), "a")
        told = []
        for k in range(400):
            future = runtime.submit("a", {"x": X})
            future.add_done_callback(lambda done: told.append(done.cancelled()))
            if k % 2:
                future.cancel()
        runtime.close()
        assert len(told) == 400 and 0 < told.count(True) <= 200


def test_objects_are_dropped_in_any_order(path):
    for order in range(6):
        runtime = moire.Runtime(threads=1)
        session = moire.Session(path, threads=1)
        loaded = runtime.load(path, "a")
        future = runtime.submit("a", {"x": X})
        parts = [runtime, session, loaded, future]
        cycle = {"runtime": runtime, "session": session}
        cycle["self"] = cycle
        del runtime, session, loaded, future, cycle
        while parts:
            parts.pop(order % len(parts))
            gc.collect()


def run_python(code, path):
    return subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )


def test_the_end_of_the_interpreter_answers_what_is_accepted(tmp_path, slow_model):
    file = tmp_path / "slow.onnx"
    file.write_bytes(slow_model)
    code = (
        "import sys, moire, numpy\n"
        "runtime = moire.Runtime(threads=1)\n"
        "runtime.load(sys.argv[1], 's')\n"
        "x = numpy.ones((512, 512), 'f')\n"
        "for k in range(4):\n"
        "    runtime.submit('s', {'x': x}).add_done_callback(lambda f: print(len(f.result())))\n"
    )
    done = run_python(code, file)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["1"] * 4, "")


def test_threads_that_run_at_the_end_do_no_harm(path):
    code = (
        "import sys, threading, moire, numpy\n"
        "session = moire.Session(sys.argv[1], threads=1)\n"
        "def work():\n"
        "    try:\n"
        "        while True: session.run(None, {'x': numpy.ones((1, 4), 'f')})\n"
        "    except moire.Closed: pass\n"
        "for k in range(4): threading.Thread(target=work, daemon=True).start()\n"
        "session.run(None, {'x': numpy.ones((1, 4), 'f')})\n"
    )
    for _ in range(3):
        done = run_python(code, path)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_child_of_a_fork_is_told(path):
    with moire.Runtime(threads=1) as runtime:
        runtime.load(path, "a")
        runtime.run("a", {"x": X})
        child = os.fork()
        if not child:
            try:
                runtime.run("a", {"x": X})
            except moire.Forked:
                runtime.close()
                with moire.Session(path, threads=1) as session:
                    os._exit(0 if session.run(None, {"x": X}) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert runtime.run("a", {"x": X})


def test_a_recording(path, tmp_path):
    with moire.Runtime(threads=1, record=1000) as runtime:
        runtime.load(path, "a")
        runtime.run("a", {"x": X})
        runtime.drain()
        runtime.record_to(tmp_path / "run.txt")
        assert (tmp_path / "run.txt").stat().st_size > 0
    with moire.Runtime(threads=1) as runtime, pytest.raises(moire.InvalidArgument, match="record"):
        runtime.record_to(tmp_path / "none.txt")


def test_interrupts_are_served_after_a_run(slow_model):
    """A run is not broken off, and the interrupt is not lost."""
    # who starts the tests in the background has interrupts ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with moire.Session(slow_model, threads=1) as session:
        timer = threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                session.run(None, {"x": BIG})
        timer.join()
        signal.signal(signal.SIGINT, before)
        assert session.run(None, {"x": BIG})
