// SPDX-License-Identifier: Apache-2.0
//
// test_cpp.cpp - moire.hpp: results, codes of exceptions, handles that were moved, callbacks that throw.
//
//   test_cpp RELU.onnx      with the case test_relu of ONNX: y = max(x, 0), of the shape 3 x 4 x 5
//
// A runtime with one worker, whose callback a gate holds, shows queries that wait: nothing here depends on
// time.
#include <moire.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <new>
#include <stdexcept>
#include <string>

namespace {

std::atomic<long> allocations{0};
std::atomic<std::size_t> refused{0}; // allocations of that many bytes fail

int passed = 0, failed = 0;

void expect(bool good, const char *what, int line) {
    good ? passed++ : failed++;
    if (!good) std::printf("test_cpp.cpp:%d: not so: %s\n", line, what);
}
#define EXPECT(what) expect((what), #what, __LINE__)

template <class Do> int code_of(Do &&act) {
    try {
        act();
    } catch (const moire::error &e) {
        if (!*e.what()) return 1;
        return e.code();
    }
    return MOIRE_OK;
}

using values = std::array<float, 60>;

values ramp(float step) {
    values x{};
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = step * (static_cast<float>(i) - 30);
    return x;
}

bool is_relu(const moire::tensor_view &y, const values &x) {
    const auto got = y.as<float>();
    if (got.size() != x.size() || y.dims().size() != 3 || y.dims()[2] != 5) return false;
    return std::equal(got.begin(), got.end(), x.begin(),
                      [](float a, float b) { return a == std::max(b, 0.0F); });
}

moire::config small() {
    moire::config config;
    config.threads = 1;
    config.no_pin = 1;
    return config;
}

// Holds whichever thread answers, and then the only worker too: of what is submitted later, nothing is run
// until it is opened.  (The runtime has another thread that answers, so the first of the two may not hold the
// worker.)
struct gate {
    std::promise<void> entered, opened;
    std::shared_future<void> open = opened.get_future().share();
    std::atomic<bool> first{true};

    void operator()(const moire_answer &) noexcept {
        if (first.exchange(false)) entered.set_value();
        open.wait();
    }
    void hold(const moire::tenant &tenant, const values &x) {
        (void)tenant.submit({moire::tensor_view(x.data(), {3, 4, 5})}, *this);
        entered.get_future().wait();
        (void)tenant.submit({moire::tensor_view(x.data(), {3, 4, 5})}, *this);
    }
};

struct counter {
    std::atomic<int> calls{0}, code{1};
    std::promise<void> called;

    void operator()(const moire_answer &answer) noexcept {
        calls++;
        code = answer.code;
        called.set_value();
    }
};

void results(const char *path) {
    const values x = ramp(0.5F), x2 = ramp(-2);
    values y{};
    const moire::runtime runtime(small());
    const moire::tenant relu = runtime.load(path);
    EXPECT(relu && relu.n_inputs() == 1 && relu.n_outputs() == 1 && relu.input(0).rank == 3);
    std::array<moire_tensor, 1> out{moire::tensor_view(y.data(), relu.output(0))};
    relu.run({moire::tensor_view(x.data(), relu.input(0))}, out);
    EXPECT(is_relu(out[0], x));
    moire::query query, lent;
    moire::query_options options;
    options.tag = 77;
    query.submit(relu, {moire::tensor_view(x2.data(), {3, 4, 5})}, &options);
    lent.lend(relu, std::vector<moire_tensor>{moire::tensor_view(x.data(), {3, 4, 5})});
    EXPECT(query.get().code == MOIRE_OK && query.get().tag == 77 &&
           query.get().end_ns >= query.get().arrival_ns);
    EXPECT(is_relu(query.output(0), x2) && is_relu(lent.output(0), x) && lent.ready());
    options.deadline_ns = runtime.now() + INT64_C(3600000000000);
    query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})}, &options);
    EXPECT(query.wait_for(std::chrono::hours(1)) && is_relu(query.output(0), x));
    bool right = false;
    auto reader = [&](const moire_answer &answer) { right = is_relu(answer.outputs[0], x2); };
    query.read(relu, {moire::tensor_view(x2.data(), {3, 4, 5})}, reader);
    EXPECT(query.get().n_outputs == 0 && right);
    runtime.drain();
    EXPECT(relu.stats().counts.ok == 5 && runtime.stats().counts.ok == 5);
}

void codes(const char *path) {
    std::atomic<int> lines{0};
    moire::config config = small();
    config.policy = "none such";
    EXPECT(code_of([&] { const moire::runtime r(config); }) == MOIRE_EINVAL);
    moire::runtime runtime(small(), [&](int, const char *) {
        lines++;
        throw std::runtime_error("a log that throws");
    });
    EXPECT(code_of([&] { (void)runtime.load("/none/such.onnx"); }) == MOIRE_EIO);
    const moire::tenant relu = runtime.load(path);
    EXPECT(lines > 0);
    const values x = ramp(1);
    moire::query query;
    EXPECT(code_of([&] { (void)query.get(); }) == MOIRE_EINVAL && query.ready() && !query.cancel());
    EXPECT(code_of([&] { query.submit(relu, {moire::tensor_view(x.data(), {4, 15})}); }) == MOIRE_ESHAPE);
    EXPECT(code_of([&] { (void)query.get(); }) == MOIRE_ESHAPE && query.ready());
    EXPECT(code_of([&] { query.submit(relu, moire::tensors{}); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { (void)moire::tensor_view(x.data(), {3, -4}); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { (void)moire::tensor_view(x.data(), {INT64_MAX, INT64_MAX}); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { (void)moire::tensor_view(x.data(), {1, 1, 1, 1, 1, 1, 1, 1, 1}); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { (void)moire::tensor_view(x.data(), {60}).as<double>(); }) == MOIRE_ESHAPE);
    EXPECT(code_of([&] { (void)relu.input(1); }) == MOIRE_EINVAL);
    values small_y{};
    std::array<moire_tensor, 1> out{moire::tensor_view(small_y.data(), {2})};
    EXPECT(code_of([&] { relu.run({moire::tensor_view(x.data(), {3, 4, 5})}, out); }) == MOIRE_ESHAPE);
    moire::query_options late;
    late.deadline_ns = 1;
    query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})}, &late);
    EXPECT(code_of([&] { (void)query.get(); }) == MOIRE_EEXPIRED);
    query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    EXPECT(code_of([&] { (void)query.output(1); }) == MOIRE_EINVAL && is_relu(query.output(0), x));
    EXPECT(std::string(moire::error(MOIRE_EBUSY, nullptr).what()) == moire_code_text(MOIRE_EBUSY));
    EXPECT(std::string(moire::error(MOIRE_EBUSY, nullptr).name()) == "MOIRE_EBUSY");
}

void moves(const char *path) {
    const values x = ramp(1);
    moire::runtime first(small());
    moire::tenant a = first.load(path);
    moire::runtime second(std::move(first));
    moire::tenant b(std::move(a));
    EXPECT(!first && second && !a && b);
    EXPECT(code_of([&] { (void)first.load(path); }) == MOIRE_EINVAL && !first.cancel(1));
    EXPECT(code_of([&] { (void)a.n_inputs(); }) == MOIRE_EINVAL &&
           code_of([&] { a.drain(); }) == MOIRE_EINVAL);
    moire::query p, q;
    p.submit(b, {moire::tensor_view(x.data(), {3, 4, 5})});
    q = std::move(p);
    EXPECT(is_relu(q.output(0), x) && !p.cancel());
    EXPECT(code_of([&] { p.wait(); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { p.submit(b, {moire::tensor_view(x.data(), {3, 4, 5})}); }) == MOIRE_EINVAL);
    EXPECT(code_of([&] { q.submit(a, {moire::tensor_view(x.data(), {3, 4, 5})}); }) == MOIRE_EINVAL);
    moire::query *same = &q;
    q = std::move(*same);
    b = std::move(*&b);
    q.submit(b, {moire::tensor_view(x.data(), {3, 4, 5})});
    EXPECT(is_relu(q.output(0), x));
    p = moire::query();
    second = moire::runtime(small()); // b keeps the runtime that it was loaded by
    p.submit(b, {moire::tensor_view(x.data(), {3, 4, 5})});
    EXPECT(is_relu(p.output(0), x) && b.stats().counts.ok == 3);
    a = second.load(path);
    second.close();
    EXPECT(!second && !a && code_of([&] { (void)a.stats(); }) == MOIRE_ESHUTDOWN);
    EXPECT(code_of([&] { second.drain(); }) == MOIRE_ESHUTDOWN);
    EXPECT(code_of([&] { p.submit(a, {moire::tensor_view(x.data(), {3, 4, 5})}); }) == MOIRE_ESHUTDOWN);
    second.close();
}

// Queries that wait behind the gate: cancelled, moved, of another tenant; each has its answer once.
void waiting(const char *path) {
    const values x = ramp(1);
    gate held;
    counter handler;
    moire::query cancelled, moved, unloaded;
    moire::runtime runtime(small());
    {
        const moire::tenant relu = runtime.load(path), other = runtime.load(path);
        held.hold(relu, x);
        cancelled.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
        EXPECT(!cancelled.ready() && !cancelled.wait_for(std::chrono::nanoseconds(1)));
        EXPECT(code_of([&] {
                   cancelled.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
               }) == MOIRE_EINVAL);
        EXPECT(cancelled.cancel());
        const moire_query id = relu.submit({moire::tensor_view(x.data(), {3, 4, 5})}, handler);
        EXPECT(runtime.cancel(id));
        moire::query from;
        from.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
        moved = std::move(from);
        unloaded.submit(other, {moire::tensor_view(x.data(), {3, 4, 5})});
        held.opened.set_value();
        EXPECT(code_of([&] { (void)cancelled.get(); }) == MOIRE_ECANCELLED);
        handler.called.get_future().wait();
        EXPECT(handler.calls == 1 && handler.code == MOIRE_ECANCELLED && !runtime.cancel(id));
        EXPECT(is_relu(moved.output(0), x) && is_relu(unloaded.output(0), x));
    }
    EXPECT(runtime.stats().tenants == 0);
}

// Queries that end, and tenants that are unloaded, before anybody has waited.
void dropping(const char *path) {
    const values x = ramp(1);
    const moire::runtime runtime(small());
    for (int i = 0; i < 20; i++) {
        moire::query outlives;
        const moire::tenant relu = runtime.load(path);
        for (int k = 0; k < 5; k++) {
            moire::query dropped;
            dropped.lend(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
        }
        outlives.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    }
    const moire_counts counts = runtime.stats().counts;
    EXPECT(counts.submitted == 120 && counts.ok + counts.cancelled + counts.unloaded == 120);
}

// A runtime that is closed without draining, while its worker is held: what waits ends MOIRE_ESHUTDOWN.
void shut(const char *path) {
    const values x = ramp(1);
    gate held;
    moire::query query;
    moire::runtime runtime(small());
    const moire::tenant relu = runtime.load(path);
    held.hold(relu, x);
    query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    auto closed = std::async(std::launch::async, [&] { runtime.close(false); });
    (void)query.wait_for(
        std::chrono::seconds(2)); // its answer comes now, unless the gate holds that thread too
    held.opened.set_value();
    closed.get();
    EXPECT(code_of([&] { (void)query.get(); }) == MOIRE_ESHUTDOWN);
}

// What is thrown on a thread of the runtime comes out of get(), and the runtime goes on.
void throwing(const char *path) {
    const values x = ramp(1);
    const moire::runtime runtime(small());
    const moire::tenant relu = runtime.load(path);
    moire::query query;
    auto thrower = [](const moire_answer &) { throw std::runtime_error("of a reader"); };
    query.read(relu, {moire::tensor_view(x.data(), {3, 4, 5})}, thrower);
    std::string said;
    for (int i = 0; i < 2; i++) {
        try {
            (void)query.get();
        } catch (const std::runtime_error &e) {
            said += e.what();
        }
    }
    EXPECT(said == "of a readerof a reader");
    moire::query starved;
    refused = sizeof(values); // the room for the output
    starved.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    bool thrown = false;
    try {
        (void)starved.get();
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    EXPECT(thrown);
    refused = 0;
    starved.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    EXPECT(is_relu(starved.output(0), x));
}

// A query that is used again allocates nothing of C++'s.
void steady(const char *path) {
    const values x = ramp(1);
    const moire::runtime runtime(small());
    const moire::tenant relu = runtime.load(path);
    moire::query query;
    query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
    query.wait();
    const long before = allocations;
    for (int i = 0; i < 50; i++) {
        query.submit(relu, {moire::tensor_view(x.data(), {3, 4, 5})});
        EXPECT(is_relu(query.output(0), x));
    }
    EXPECT(allocations == before);
}

} // namespace

__attribute__((noinline)) void *operator new(std::size_t size) {
    allocations++;
    void *made = size == refused ? nullptr : std::malloc(size);
    if (!made) throw std::bad_alloc();
    return made;
}
__attribute__((noinline)) void operator delete(void *old) noexcept {
    std::free(old);
}
__attribute__((noinline)) void operator delete(void *old, std::size_t) noexcept {
    std::free(old);
}

int main(int argc, char **argv) try {
    if (argc != 2) return 2;
    results(argv[1]);
    codes(argv[1]);
    moves(argv[1]);
    waiting(argv[1]);
    dropping(argv[1]);
    shut(argv[1]);
    throwing(argv[1]);
    steady(argv[1]);
    std::printf("moire.hpp: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
} catch (const std::exception &e) {
    std::printf("moire.hpp: %d passed, %d failed, 0 skipped\nthrown: %s\n", passed, failed + 1, e.what());
    return 1;
}
