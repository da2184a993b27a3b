// SPDX-License-Identifier: Apache-2.0
// embed.cpp - a model served from C++17: handles that clean up, an answer as a future, limits and statistics.
//
//   c++ -std=c++17 embed.cpp $(pkg-config --cflags --libs moire) -o embed && ./embed model.onnx
#include <moire.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(int code, const moire_error &err) {
    if (code != MOIRE_OK) throw std::runtime_error(std::string(moire_code_name(code)) + ": " + err.message);
}

struct Destroy {
    void operator()(moire_runtime *runtime) const {
        moire_runtime_destroy(runtime, 1);
    }
};
using Runtime = std::unique_ptr<moire_runtime, Destroy>;

Runtime start() {
    const moire_limit_setting queue{"queue", 64};
    moire_config config;
    moire_config_init(&config);
    config.limits = &queue;
    config.n_limits = 1;
    moire_error err{};
    moire_runtime *runtime = nullptr;
    check(moire_runtime_create(&config, &runtime, &err), err);
    return Runtime(runtime);
}

struct Answer {
    int code;
    std::uint64_t tag;
    std::vector<float> first; // the first output; others are left out here
};

// Outputs belong to the runtime and are gone when this returns, so what is wanted is copied.
void on_answer(void *user, const moire_answer *answer) {
    Answer result{answer->code, answer->tag, {}};
    if (answer->n_outputs > 0 && answer->outputs[0].dtype == MOIRE_F32) {
        const auto *values = static_cast<const float *>(answer->outputs[0].data);
        result.first.assign(values, values + answer->outputs[0].bytes / sizeof(float));
    }
    static_cast<std::promise<Answer> *>(user)->set_value(std::move(result));
}

// One float input of zeros, an hour to live, and a tag that comes back.
Answer ask(moire_runtime *runtime, moire_tenant *tenant, std::uint64_t tag) {
    moire_port port;
    moire_error err{};
    check(moire_input(tenant, 0, &port), err);
    moire_tensor input{};
    std::size_t n = 1;
    input.dtype = port.dtype;
    input.rank = port.rank;
    for (int i = 0; i < port.rank; i++)
        n *= static_cast<std::size_t>(input.shape[i] = port.shape[i]);
    std::vector<float> zeros(n);
    input.data = zeros.data();
    input.bytes = n * sizeof(float);
    moire_query_options options;
    moire_query_options_init(&options);
    options.tag = tag;
    options.deadline_ns = moire_now(runtime) + std::chrono::nanoseconds(std::chrono::hours(1)).count();
    std::promise<Answer> promise;
    auto answer = promise.get_future();
    check(moire_submit_with(tenant, &input, 1, &options, on_answer, &promise, nullptr, &err), err);
    return answer.get();
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 2 || moire_abi_version() != MOIRE_ABI_VERSION) return 2;
    moire_error err{};
    const Runtime runtime = start();
    moire_tenant *tenant = nullptr;
    check(moire_load(runtime.get(), argv[1], nullptr, &tenant, &err), err);
    const Answer answer = ask(runtime.get(), tenant, 42);
    std::printf("query %llu: %s, %zu values\n", static_cast<unsigned long long>(answer.tag),
                moire_code_text(answer.code), answer.first.size());
    auto stats = std::make_unique<moire_tenant_stats>();
    stats->size = sizeof *stats;
    check(moire_tenant_get_stats(tenant, stats.get(), &err), err);
    std::printf("%lld ok, %lld bytes of weights, 99 %% within %lld us\n",
                static_cast<long long>(stats->counts.ok), static_cast<long long>(stats->memory.weights),
                static_cast<long long>(moire_histogram_quantile(&stats->times.total, 0.99) / 1000));
    return answer.code == MOIRE_OK && answer.tag == 42 && stats->counts.ok == 1 ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
