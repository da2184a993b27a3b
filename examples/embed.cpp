// SPDX-License-Identifier: Apache-2.0
// embed.cpp - a model served from C++17 by moire.hpp: a query with a deadline, its answer, limits,
// statistics.
//
//   c++ -std=c++17 embed.cpp $(pkg-config --cflags --libs moire) -o embed && ./embed model.onnx
#include <moire.hpp>

#include <cstdio>
#include <vector>

namespace {

// One float input of zeros, an hour to live, and a tag that comes back.
bool ask(const moire::runtime &runtime, const moire::tenant &tenant) {
    const moire_port port = tenant.input(0);
    std::size_t n = 1;
    for (int i = 0; i < port.rank; i++)
        n *= static_cast<std::size_t>(port.shape[i]);
    const std::vector<float> zeros(n);

    moire::query_options options;
    options.tag = 42;
    options.deadline_ns = runtime.now() + INT64_C(3600000000000);
    moire::query query;
    query.submit(tenant, {moire::tensor_view(zeros.data(), port)}, &options);
    const moire_answer &answer = query.get(); // waits, and throws what went wrong
    std::printf("query %llu: %s, %zu values\n", static_cast<unsigned long long>(answer.tag),
                moire_code_text(answer.code), query.output(0).as<float>().size());
    return answer.tag == 42;
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 2) return 2;
    const moire_limit_setting queue{"queue", 64};
    moire::config config;
    config.limits = &queue;
    config.n_limits = 1;
    const moire::runtime runtime(config);
    const moire::tenant tenant = runtime.load(argv[1]);
    const bool right = ask(runtime, tenant);
    const moire_tenant_stats stats = tenant.stats();
    std::printf("%lld ok, %lld bytes of weights, 99 %% within %lld us\n",
                static_cast<long long>(stats.counts.ok), static_cast<long long>(stats.memory.weights),
                static_cast<long long>(moire_histogram_quantile(&stats.times.total, 0.99) / 1000));
    return right && stats.counts.ok == 1 ? 0 : 1;
} catch (const moire::error &e) {
    std::fprintf(stderr, "%s: %s\n", e.name(), e.what());
    return 1;
}
