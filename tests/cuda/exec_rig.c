/* SPDX-License-Identifier: Apache-2.0
 * exec_rig.c - see exec_rig.h. */
#include "tests/cuda/exec_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/cuda/exec.h"
#include "tests/cuda/gpu_host.h"

enum { PINNED = 1 << 20 };

int exec_rig_try(struct exec_rig *r, const struct exec_rig_options *o, moire_error *err) {
    const struct mo_fake_cuda *(*fake)(void);
    mo_cu_stream stream;
    *r = (struct exec_rig){.env = mo_env_default()};
    if (mo_cuda_driver_open(&r->object, &r->env, gpu_host_fakes(), &r->cu, err)) fail_msg("%s", err->message);
    void *symbol = dlsym(r->object.handle, "mo_fake_cuda");
    memcpy(&fake, &symbol, sizeof fake);
    r->fake = fake();
    r->fake->reset(&(struct mo_fake_config){.memory = (size_t)1 << 30});
    assert_int_equal(r->cu.init(0), 0);
    assert_int_equal(r->cu.primary_retain(&r->context, 0), 0);
    assert_int_equal(r->cu.context_push(r->context), 0);
    assert_int_equal(r->cu.stream_create(&stream, MO_CU_STREAM_NON_BLOCKING, 0), 0);
    void *pinned;
    assert_int_equal(r->cu.host_alloc(&pinned, PINNED, MO_CU_HOST_PORTABLE), 0);
    r->pinned = pinned;
    r->target = (struct mo_cuda_target){
        .context = r->context, .stream = stream, .place = 1, .sms = o->sms ? o->sms : 132};
    for (int i = 0; i < 2; i++)
        assert_int_equal(r->cu.event_create((mo_cu_event *)&r->target.marks[i], 0), 0);
    const struct mo_cuda_exec_config config = {.env = o->env ? o->env : &r->env,
                                               .driver = &r->cu,
                                               .path = gpu_host_fakes(),
                                               .cache = o->cache,
                                               .gpu = o->gpu ? o->gpu : "fake",
                                               .driver_level = 13000,
                                               .major = 9,
                                               .minor = o->minor,
                                               .sms = 132,
                                               .unit_sms = 8,
                                               .workspace = 1 << 16,
                                               .libraries_first = o->libraries_first,
                                               .no_dnn = o->no_libraries,
                                               .no_blas = o->no_libraries};
    return mo_cuda_exec_open(&config, &r->exec, err);
}

void exec_rig_open(struct exec_rig *r, const struct exec_rig_options *o) {
    moire_error err = {0};
    if (exec_rig_try(r, o, &err)) fail_msg("%s", err.message);
}

void exec_rig_close(struct exec_rig *r) {
    struct mo_fake_counts counts;
    mo_cu_context context;
    mo_cuda_exec_close(r->exec);
    assert_int_equal(r->cu.stream_destroy(r->target.stream), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(r->cu.event_destroy(r->target.marks[i]), 0);
    assert_int_equal(r->cu.host_free(r->pinned), 0);
    assert_int_equal(r->cu.context_pop(&context), 0);
    r->fake->counts(&counts);
    if (counts.mistakes) fail_msg("%s", counts.mistake);
    assert_int_equal(counts.memory, 0);
    assert_int_equal(counts.graph_execs, 0);
    assert_int_equal(counts.graphs, 0);
    assert_int_equal(counts.libraries, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(r->cu.primary_release(0), 0);
    mo_cuda_object_close(&r->object);
}

struct mo_gpu_program *exec_rig_lower(const struct mo_graph *g, enum mo_gpu_precision precision,
                                      uint64_t model) {
    const struct mo_gpu_options options = {.precision = precision, .model = model, .max_segments = 3};
    struct mo_gpu_program *p;
    moire_error err = {0};
    if (mo_gpu_lower(g, &options, &p, &err)) fail_msg("%s", err.message);
    return p;
}

void exec_rig_settle(struct exec_rig *r) {
    assert_int_equal(mo_exec_wait(r->exec, r->target.stream), 0);
}

int exec_rig_queue(struct exec_rig *r, struct mo_gpu_loaded *loaded, int instance, int begin, int end,
                   moire_error *err) {
    int rc = MOIRE_OK;
    if (!mo_cuda_exec_ready(loaded, instance, r->target.place, begin, end))
        rc = mo_cuda_exec_prepare(loaded, instance, &r->target, begin, end, err);
    return rc ? rc : mo_cuda_exec_queue(loaded, instance, &r->target, begin, end, err);
}

void exec_rig_run(struct exec_rig *r, struct mo_gpu_loaded *loaded, int instance, const moire_tensor *in,
                  moire_tensor *out) {
    const struct mo_gpu_program *p = &loaded->program;
    const uint64_t arena = loaded->arenas[instance];
    moire_error err = {0};
    assert_int_equal(r->cu.fill(arena, 0xff, (size_t)p->arena_bytes, r->target.stream), 0);
    for (int i = 0; i < p->n_inputs; i++) {
        const uint64_t at = arena + (uint64_t)p->inputs[i].offset;
        assert_true(in[i].bytes <= PINNED);
        memcpy(r->pinned, in[i].data, in[i].bytes);
        assert_int_equal(r->cu.copy_in(at, r->pinned, in[i].bytes, r->target.stream), 0);
        exec_rig_settle(r);
    }
    for (int i = 0; i < p->n_segments; i++)
        if (exec_rig_queue(r, loaded, instance, i, i + 1, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < p->n_outputs; i++) {
        const struct mo_gpu_port *port = &p->outputs[i];
        const uint64_t at = arena + (uint64_t)port->offset;
        out[i] = (moire_tensor){.dtype = port->dtype, .rank = port->rank, .bytes = (size_t)port->bytes};
        memcpy(out[i].shape, port->shape, sizeof port->shape);
        out[i].data = malloc(out[i].bytes);
        assert_true(out[i].data && out[i].bytes <= PINNED);
        assert_int_equal(r->cu.copy_out(r->pinned, at, out[i].bytes, r->target.stream), 0);
        exec_rig_settle(r);
        memcpy(out[i].data, r->pinned, out[i].bytes);
    }
}
