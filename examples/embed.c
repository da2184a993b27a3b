/* SPDX-License-Identifier: Apache-2.0
 * embed.c - a model served from C: limits, queries with options, an answer by callback, statistics.
 *
 *   cc embed.c $(pkg-config --cflags --libs moire) -o embed && ./embed model.onnx
 */
#include <inttypes.h>
#include <moire.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 8 };

/* Runs on a thread of the runtime, once a query: short, and it waits for nothing. */
static void on_answer(void *user, const moire_answer *answer) {
    (void)user;
    printf("query %" PRIu64 ": %s, %" PRId64 " us after it came, %d outputs\n", answer->tag,
           moire_code_text(answer->code), (answer->end_ns - answer->arrival_ns) / 1000, answer->n_outputs);
}

static size_t bytes_of(const moire_port *port) {
    size_t n = port->dtype == MOIRE_F64 || port->dtype == MOIRE_I64 ? 8 : 4;
    for (int i = 0; i < port->rank; i++)
        n *= (size_t)port->shape[i];
    return n;
}

/* Zeros of the shape that the model was loaded for. */
static int make_inputs(const moire_tenant *tenant, moire_tensor *inputs, int n) {
    for (int i = 0; i < n; i++) {
        moire_port port;
        if (moire_input(tenant, i, &port)) return -1;
        inputs[i] = (moire_tensor){.dtype = port.dtype, .rank = port.rank, .bytes = bytes_of(&port)};
        for (int k = 0; k < port.rank; k++)
            inputs[i].shape[k] = port.shape[k];
        inputs[i].data = calloc(1, inputs[i].bytes);
        if (!inputs[i].data) return -1;
    }
    return 0;
}

/* All queries in one call: one with an hour to live, and one whose time has passed. */
static int submit(moire_runtime *runtime, moire_tenant *tenant, const moire_tensor *inputs,
                  moire_error *err) {
    moire_query_options options[QUERIES];
    moire_submission queries[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        moire_query_options_init(&options[i]);
        options[i].tag = (uint64_t)i;
        queries[i] = (moire_submission){.inputs = inputs, .options = &options[i]};
    }
    options[1].deadline_ns = moire_now(runtime) + INT64_C(3600000000000);
    options[2].deadline_ns = 1;
    options[3].own_priority = 1;
    options[3].priority = 10;
    return moire_submit_many(tenant, queries, QUERIES, on_answer, err);
}

static int show(moire_runtime *runtime, moire_error *err) {
    moire_runtime_stats stats = {.size = sizeof stats};
    moire_tenant_row rows[4];
    int n, code = moire_tenants(runtime, rows, 4, &n, err);
    if (!code) code = moire_runtime_get_stats(runtime, &stats, err);
    if (code) return code;
    for (int i = 0; i < n && i < 4; i++)
        printf("tenant %" PRIu64 " '%s', state %d\n", rows[i].id, rows[i].name, rows[i].state);
    printf("%" PRId64 " submitted, %" PRId64 " ok, %" PRId64 " expired; median %" PRId64 " us, of %d cores\n",
           stats.counts.submitted, stats.counts.ok, stats.counts.expired,
           moire_histogram_quantile(&stats.times.total, 0.5) / 1000, stats.cores);
    return stats.counts.ok == QUERIES - 1 && stats.counts.expired == 1 ? MOIRE_OK : MOIRE_EFAILED;
}

static int serve(moire_runtime *runtime, const char *path, moire_error *err) {
    moire_tenant *tenant;
    moire_tensor inputs[16] = {{0}};
    int code = moire_load(runtime, path, NULL, &tenant, err), n = code ? 0 : moire_n_inputs(tenant);
    if (n > 16) {
        code = MOIRE_ELIMIT; /* of this example */
        n = 0;
    }
    if (!code && make_inputs(tenant, inputs, n)) code = MOIRE_ENOMEM;
    if (!code) code = submit(runtime, tenant, inputs, err);
    if (!code) code = moire_tenant_drain(tenant, err); /* or moire_drain(): every callback has run */
    if (!code) code = show(runtime, err);
    for (int i = 0; i < n; i++)
        free(inputs[i].data);
    return code;
}

int main(int argc, char **argv) {
    const moire_limit_setting limits[] = {{"queue", 64}};
    moire_error err = {0};
    moire_runtime *runtime;
    moire_config config;
    if (argc != 2 || moire_abi_version() != MOIRE_ABI_VERSION) return 2;
    moire_config_init(&config);
    config.limits = limits;
    config.n_limits = 1;
    int code = moire_runtime_create(&config, &runtime, &err);
    if (!code) {
        code = serve(runtime, argv[1], &err);
        moire_runtime_destroy(runtime, 1);
    }
    if (code) fprintf(stderr, "%s: %s\n", moire_code_name(code), err.message);
    return code ? 1 : 0;
}
