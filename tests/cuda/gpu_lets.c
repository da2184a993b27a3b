/* SPDX-License-Identifier: Apache-2.0
 * gpu_lets.c - see gpu_lets.h. */
#include "tests/cuda/gpu_lets.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/loader.h"
#include "tests/fake/cuda/fake.h"

static const int64_t PATIENCE_NS = 60000000000;

struct gpu_lets {
    const struct mo_env *env;
    void *driver;
    const struct mo_fake_cuda *fake;
    struct mo_gpu_device device;
    struct mo_gpu_info info;
    struct gpu_lets_counts counts;
    bool used[2 * MO_GPU_UNITS]; /* by first unit, and units less one */
};

/* One run. */
struct waiting {
    _Atomic uint32_t done;
    int code;
    char message[300];
};

static int open_fake(struct gpu_lets *l, const char *fakes, moire_error *err) {
    char path[500];
    const struct mo_fake_cuda *(*get)(void);
    snprintf(path, sizeof path, "%s/libcuda.so.1", fakes);
    l->driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = l->driver ? dlsym(l->driver, "mo_fake_cuda") : NULL;
    if (!symbol) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s is no fake driver", path);
    memcpy(&get, &symbol, sizeof get);
    l->fake = get();
    l->fake->reset(&(struct mo_fake_config){.memory = (size_t)1 << 30});
    return MOIRE_OK;
}

int gpu_lets_open(const struct mo_env *env, const char *fakes, struct gpu_lets **out, moire_error *err) {
    char device[500];
    struct gpu_lets *l = *out = calloc(1, sizeof *l);
    if (!l) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    l->env = env;
    snprintf(device, sizeof device, "cuda:%s/../../libmoire-cuda.so", fakes);
    const struct mo_gpu_config config = {.path = fakes, .libraries_first = true};
    int rc = open_fake(l, fakes, err);
    if (!rc) rc = mo_gpu_device_open(env, device, &config, &l->device, err);
    if (!rc) rc = l->device.ops->describe(l->device.system, 0, &l->info, err);
    l->counts.sms = l->info.sms;
    return rc;
}

/* --- one program ---------------------------------------------------------------------------------------- */
static int open_let(struct gpu_lets *l, struct mo_gpu_let **out, moire_error *err) {
    const int turn = l->counts.programs++, first = turn % l->info.units;
    const int units = 1 + (turn / l->info.units % 2 && first + 1 < l->info.units);
    bool *used = &l->used[2 * first + units - 1];
    l->counts.lets += !*used;
    *used = true;
    if (units * l->info.unit_sms > l->counts.most_sms) l->counts.most_sms = units * l->info.unit_sms;
    return l->device.ops->let_open(l->device.system, 0, first, units, 1, out, err);
}

static int count_ways(struct gpu_lets *l, const struct mo_gpu_program *p, struct mo_gpu_loaded *loaded,
                      moire_error *err) {
    struct mo_gpu_ways w;
    int rows = 0;
    if (l->device.ops->program_ways(loaded, &w, 1) != 1)
        return mo_fail(err, MOIRE_EFAILED, "the plugin does not tell how it computes");
    for (int i = 0; i < p->n_ops; i++)
        rows += p->ops[i].kind == MO_GPU_GEMM && p->ops[i].gemm.m == 1;
    for (int kind = 0; kind < MO_GPU_KINDS; kind++)
        for (int way = 0; way < MO_GPU_WAYS; way++)
            l->counts.way[kind][way] += w.count[kind][way];
    l->counts.refused += rows;
    if (w.fallen[MO_GPU_CONV] || w.fallen[MO_GPU_GEMM] != rows)
        return mo_fail(err, MOIRE_EFAILED, "%d convolutions and %d products go by no library",
                       w.fallen[MO_GPU_CONV], w.fallen[MO_GPU_GEMM] - rows);
    return MOIRE_OK;
}

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct waiting *w = ctx;
    (void)times;
    w->code = code;
    snprintf(w->message, sizeof w->message, "%s", message ? message : "");
    atomic_store(&w->done, 1);
}

static int run(struct gpu_lets *l, struct mo_gpu_run *what, moire_error *err) {
    const struct mo_sys *sys = l->env->sys;
    struct waiting w = {.done = 0};
    what->done = done;
    what->ctx = &w;
    const int64_t until = mo_now(l->env) + PATIENCE_NS;
    const int rc = l->device.ops->run(what, err);
    if (rc) return rc;
    while (!atomic_load(&w.done)) {
        if (mo_now(l->env) > until) abort(); /* `w` is still awaited */
        sys->sleep_until(sys->self, mo_now(l->env) + 20000);
    }
    return w.code ? mo_fail(err, w.code, "%s", w.message) : MOIRE_OK;
}

/* Every port at its own place of staging memory; NULL: only how many bytes that takes. */
static size_t place_ports(const struct mo_gpu_port *ports, int n, char *base, void **out) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (base) out[i] = base + at;
        at += ((size_t)ports[i].bytes / MO_GPU_ALIGN + 1) * MO_GPU_ALIGN;
    }
    return at;
}

static int copy_in(const struct mo_gpu_program *p, const moire_tensor *inputs, void *const *in,
                   moire_error *err) {
    for (int i = 0; i < p->n_inputs; i++) {
        if (inputs[i].bytes != (size_t)p->inputs[i].bytes)
            return mo_fail(err, MOIRE_EFAILED, "size of input %d", i);
        memcpy(in[i], inputs[i].data, inputs[i].bytes);
    }
    return MOIRE_OK;
}

static void copy_out(const struct mo_gpu_program *p, void *const *out, moire_tensor *outputs) {
    for (int i = 0; i < p->n_outputs; i++) {
        const struct mo_gpu_port *port = &p->outputs[i];
        outputs[i] = (moire_tensor){.dtype = port->dtype, .rank = port->rank, .bytes = (size_t)port->bytes};
        memcpy(outputs[i].shape, port->shape, sizeof port->shape);
        outputs[i].data = malloc(outputs[i].bytes + 1);
        if (!outputs[i].data) abort();
        memcpy(outputs[i].data, out[i], outputs[i].bytes);
    }
}

static int run_staged(struct gpu_lets *l, const struct mo_gpu_program *p, struct mo_gpu_run *what,
                      const moire_tensor *inputs, moire_tensor *outputs, moire_error *err) {
    const struct mo_gpu_ops *ops = l->device.ops;
    const size_t in_bytes = place_ports(p->inputs, p->n_inputs, NULL, NULL);
    const size_t ports = (size_t)p->n_inputs + (size_t)p->n_outputs;
    void *base, **at = calloc(ports + 1, sizeof *at);
    if (!at) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = ops->staging_alloc(l->device.system,
                                in_bytes + place_ports(p->outputs, p->n_outputs, NULL, NULL) + 1, &base, err);
    if (!rc) {
        place_ports(p->inputs, p->n_inputs, base, at);
        place_ports(p->outputs, p->n_outputs, (char *)base + in_bytes, at + p->n_inputs);
        what->inputs = (const void *const *)at;
        what->outputs = at + p->n_inputs;
        rc = copy_in(p, inputs, at, err);
        if (!rc) rc = run(l, what, err);
        if (!rc) copy_out(p, at + p->n_inputs, outputs);
        ops->staging_free(l->device.system, base);
    }
    free(at);
    return rc;
}

int gpu_lets_run(struct gpu_lets *l, struct mo_gpu_program *p, const moire_tensor *inputs,
                 moire_tensor *outputs, moire_error *err) {
    const struct mo_gpu_ops *ops = l->device.ops;
    struct mo_gpu_let *let = NULL;
    struct mo_gpu_loaded *loaded = NULL;
    p->batch = 1; /* all of a port belongs to one query, whatever its first dimension means */
    int rc = open_let(l, &let, err);
    if (!rc) rc = ops->program_load(l->device.system, 0, p, 1, &loaded, err);
    if (!rc) rc = ops->prepare(loaded, let, err);
    if (!rc) rc = count_ways(l, p, loaded, err);
    struct mo_gpu_run what = {
        .let = let, .program = loaded, .end = p->n_segments, .batch = 1, .hang_ns = PATIENCE_NS};
    if (!rc) rc = run_staged(l, p, &what, inputs, outputs, err);
    ops->let_close(let);
    ops->program_unload(loaded);
    return rc;
}

void gpu_lets_counts(const struct gpu_lets *l, struct gpu_lets_counts *out) {
    *out = l->counts;
}

int gpu_lets_close(struct gpu_lets *l, moire_error *err) {
    struct mo_fake_counts c = {0};
    if (!l) return MOIRE_OK;
    mo_gpu_device_close(&l->device);
    if (l->fake) l->fake->counts(&c);
    if (l->driver) dlclose(l->driver);
    free(l);
    if (c.mistakes) return mo_fail(err, MOIRE_EFAILED, "the fake driver saw a mistake: %.150s", c.mistake);
    if (c.memory || c.graphs || c.graph_execs || c.libraries || c.streams || c.events || c.green)
        return mo_fail(err, MOIRE_EFAILED, "something was left in the fake driver");
    return MOIRE_OK;
}
