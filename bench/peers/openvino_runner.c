/* SPDX-License-Identifier: Apache-2.0
 * openvino_runner.c - OpenVINO under the load of `moire bench`, through its C API.
 *
 * Arrangements: "solo" (latency hint, one stream), "latency" and "throughput": each tenant's model is
 * compiled with that performance hint and gets the number of infer requests which OpenVINO itself calls
 * optimal; queries that find no free request wait in the tenant's FIFO.  Layers of floats compute in f32, or
 * in bf16 where moire's may.
 *
 * Threads: the generator appends to a FIFO, OpenVINO's callback frees a request, and one dispatcher thread
 * matches the two; `lock` guards all of it. */
#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/drive.h"

enum { MAX_REQUESTS = 32, MAX_PORTS = MO_BENCH_MAX_INPUTS, FIFO = 1 << 16 };

struct ov_peer;
struct ov_slot {
    struct ov_peer *peer;
    ov_infer_request_t *request;
    ov_callback_t callback; /* OpenVINO keeps a pointer to it */
    struct mo_bench_drive *drive;
    int tenant, query;
    int64_t start_ns;
    bool busy;
};

struct ov_tenant {
    ov_compiled_model_t *compiled;
    ov_tensor_t *inputs[MAX_PORTS];
    size_t n_inputs;
    struct ov_slot slots[MAX_REQUESTS];
    int n_slots;
    int *fifo; /* ring of query indices */
    unsigned head, tail;
};

struct ov_peer {
    const struct mo_env *env;
    ov_core_t *core;
    struct ov_tenant *tenants;
    int n_tenants;
    struct mo_bench_drive *drive;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    pthread_t dispatcher;
    bool started, quit;
    int busy;
};

static int check(ov_status_e status, const char *what, const char *model, moire_error *err) {
    if (status == OK) return MOIRE_OK;
    const char *detail = ov_get_last_err_msg();
    return mo_fail(err, MOIRE_EFAILED, "openvino: %s: %s: %.200s", model, what,
                   detail && *detail ? detail : ov_get_error_info(status));
}

/* --- loading ------------------------------------------------------------------------------------------ */
static void fill(void *data, size_t bytes, ov_element_type_e type) {
    size_t width = type == I64 ? 8 : 4;
    for (size_t i = 0; i < bytes / width; i++) {
        if (type == I64)
            ((int64_t *)data)[i] = 1;
        else if (type == I32)
            ((int32_t *)data)[i] = 1;
        else if (type == F32)
            ((float *)data)[i] = (float)(i * 2654435761u % 1000) * 1e-3f;
    }
}

/* The shape to compile for: the job's, or the model's own with an open first dimension set to 1. */
static int bind(const ov_model_t *model, size_t port_index, const struct mo_bench_tenant *want,
                ov_partial_shape_t *out, char **name, moire_error *err) {
    ov_output_const_port_t *port = NULL;
    ov_partial_shape_t shape;
    int code = check(ov_model_const_input_by_index(model, port_index, &port), "input", want->model, err);
    if (code) return code;
    code = check(ov_port_get_any_name(port, name), "input name", want->model, err);
    if (!code) code = check(ov_port_get_partial_shape(port, &shape), "input shape", want->model, err);
    ov_output_const_port_free(port);
    if (code) return code;
    int64_t dims[MOIRE_MAX_RANK] = {0};
    int64_t rank = shape.rank.min < MOIRE_MAX_RANK ? shape.rank.min : MOIRE_MAX_RANK;
    for (int64_t i = 0; i < rank; i++)
        dims[i] = shape.dims[i].min == shape.dims[i].max ? shape.dims[i].min : i == 0 ? 1 : -1;
    for (int i = 0; i < want->n_shapes; i++) {
        if (strcmp(want->shapes[i].input, *name) != 0) continue;
        rank = want->shapes[i].rank;
        memcpy(dims, want->shapes[i].shape, sizeof dims);
    }
    ov_partial_shape_free(&shape);
    for (int64_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return mo_fail(err, MOIRE_ESHAPE, "openvino: %s: input '%s' needs a shape (--shape %s=...)",
                           want->model, *name, *name);
    return check(ov_partial_shape_create_static(rank, dims, out), "shape", want->model, err);
}

static int reshape(ov_model_t *model, const struct mo_bench_tenant *want, moire_error *err) {
    size_t n = 0, bound = 0;
    char *names[MAX_PORTS] = {0};
    ov_partial_shape_t shapes[MAX_PORTS];
    int code = check(ov_model_inputs_size(model, &n), "inputs", want->model, err);
    if (!code && n > MAX_PORTS)
        code = mo_fail(err, MOIRE_ELIMIT, "%s: more than %d inputs", want->model, MAX_PORTS);
    for (; !code && bound < n; bound++)
        code = bind(model, bound, want, &shapes[bound], &names[bound], err);
    if (!code)
        code = check(ov_model_reshape(model, (const char **)names, shapes, n), "reshape", want->model, err);
    for (size_t i = 0; i < n && i < MAX_PORTS; i++) {
        if (names[i]) ov_free(names[i]);
        if (i + 1 < bound || (i < bound && !code)) ov_partial_shape_free(&shapes[i]);
    }
    return code;
}

static int make_inputs(struct ov_tenant *t, const char *model, moire_error *err) {
    int code = check(ov_compiled_model_inputs_size(t->compiled, &t->n_inputs), "inputs", model, err);
    for (size_t i = 0; !code && i < t->n_inputs; i++) {
        ov_output_const_port_t *port = NULL;
        ov_shape_t shape;
        ov_element_type_e type;
        void *data;
        size_t bytes;
        code = check(ov_compiled_model_input_by_index(t->compiled, i, &port), "input", model, err);
        if (!code) code = check(ov_const_port_get_shape(port, &shape), "input shape", model, err);
        if (code) break;
        code = check(ov_port_get_element_type(port, &type), "input type", model, err);
        if (!code) code = check(ov_tensor_create(type, shape, &t->inputs[i]), "input tensor", model, err);
        ov_shape_free(&shape);
        ov_output_const_port_free(port);
        if (code) break;
        ov_tensor_data(t->inputs[i], &data);
        ov_tensor_get_byte_size(t->inputs[i], &bytes);
        fill(data, bytes, type);
    }
    return code;
}

static void on_done(void *arg);

static int make_requests(struct ov_peer *peer, int index, const char *model, moire_error *err) {
    struct ov_tenant *t = &peer->tenants[index];
    char *optimal = NULL;
    int code = check(ov_compiled_model_get_property(
                         t->compiled, ov_property_key_optimal_number_of_infer_requests, &optimal),
                     "optimal number of requests", model, err);
    if (code) return code;
    long want = strtol(optimal, NULL, 10);
    ov_free(optimal);
    if (want < 1) want = 1;
    for (int i = 0; !code && i < want && i < MAX_REQUESTS; i++) {
        struct ov_slot *slot = &t->slots[i];
        *slot = (struct ov_slot){.peer = peer, .tenant = index};
        code =
            check(ov_compiled_model_create_infer_request(t->compiled, &slot->request), "request", model, err);
        t->n_slots += !code;
        for (size_t k = 0; !code && k < t->n_inputs; k++)
            code = check(ov_infer_request_set_input_tensor_by_index(slot->request, k, t->inputs[k]), "input",
                         model, err);
        slot->callback = (ov_callback_t){.callback_func = on_done, .args = slot};
        if (!code)
            code =
                check(ov_infer_request_set_callback(slot->request, &slot->callback), "callback", model, err);
    }
    return code;
}

static int load_tenant(struct ov_peer *peer, const struct mo_bench_job *job, int index, moire_error *err) {
    const struct mo_bench_tenant *want = &job->tenants[index];
    struct ov_tenant *t = &peer->tenants[index];
    const char *own = job->precision ? job->precision : "", *precision = "f32";
    if (!strcmp(own, "bf16")) precision = "bf16";
    if (!strcmp(own, "fp16")) precision = "f16";
    char threads[16];
    snprintf(threads, sizeof threads, "%d", (int)job->threads);
    const ov_property_t properties[] = {
        {ov_property_key_hint_performance_mode,
         !strcmp(job->arrangement, "throughput") ? "THROUGHPUT" : "LATENCY"},
        {ov_property_key_inference_num_threads, threads},
        {ov_property_key_hint_inference_precision, precision},
    };
    ov_model_t *model = NULL;
    int code = check(ov_core_read_model(peer->core, want->model, NULL, &model), "reading", want->model, err);
    if (!code) code = reshape(model, want, err);
    if (!code)
        code = check(ov_core_compile_model_props(peer->core, model, "CPU", 3, properties, &t->compiled),
                     "compiling", want->model, err);
    if (model) ov_model_free(model);
    if (!code) code = make_inputs(t, want->model, err);
    if (!code) code = make_requests(peer, index, want->model, err);
    if (!code && !(t->fifo = mo_alloc(peer->env, FIFO * sizeof *t->fifo)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return code;
}

/* --- serving ------------------------------------------------------------------------------------------ */
static void on_done(void *arg) {
    struct ov_slot *slot = arg;
    struct ov_peer *peer = slot->peer;
    int64_t end = mo_now(peer->env);
    pthread_mutex_lock(&peer->lock);
    if (slot->drive) {
        mo_bench_done(slot->drive, slot->query, slot->start_ns, end, MOIRE_OK);
        slot->drive = NULL;
        slot->busy = false;
        peer->busy--;
    }
    pthread_cond_signal(&peer->work);
    pthread_cond_signal(&peer->idle);
    pthread_mutex_unlock(&peer->lock);
}

/* Starts the oldest waiting query that has a free request; the lock is held, and let go around the start. */
static bool start_one(struct ov_peer *peer) {
    for (int i = 0; i < peer->n_tenants; i++) {
        struct ov_tenant *t = &peer->tenants[i];
        for (int k = 0; t->head != t->tail && k < t->n_slots; k++) {
            struct ov_slot *slot = &t->slots[k];
            if (slot->busy) continue;
            slot->busy = true;
            slot->drive = peer->drive;
            slot->query = t->fifo[t->head++ % FIFO];
            slot->start_ns = mo_now(peer->env);
            peer->busy++;
            pthread_mutex_unlock(&peer->lock);
            ov_status_e status = ov_infer_request_start_async(slot->request);
            pthread_mutex_lock(&peer->lock);
            if (status != OK) {
                mo_bench_done(slot->drive, slot->query, 0, mo_now(peer->env), MOIRE_EFAILED);
                slot->drive = NULL;
                slot->busy = false;
                peer->busy--;
            }
            return true;
        }
    }
    return false;
}

static void *dispatch(void *arg) {
    struct ov_peer *peer = arg;
    pthread_mutex_lock(&peer->lock);
    while (!peer->quit)
        if (!start_one(peer)) pthread_cond_wait(&peer->work, &peer->lock);
    pthread_mutex_unlock(&peer->lock);
    return NULL;
}

static int ov_issue(void *self, struct mo_bench_drive *drive, int index, int tenant, int64_t arrival_ns) {
    (void)arrival_ns;
    struct ov_peer *peer = self;
    struct ov_tenant *t = &peer->tenants[tenant];
    int code = MOIRE_OK;
    pthread_mutex_lock(&peer->lock);
    peer->drive = drive;
    if (t->tail - t->head == FIFO)
        code = MOIRE_EBUSY;
    else
        t->fifo[t->tail++ % FIFO] = index;
    pthread_cond_signal(&peer->work);
    pthread_mutex_unlock(&peer->lock);
    return code;
}

static void ov_stop(void *self) {
    struct ov_peer *peer = self;
    pthread_mutex_lock(&peer->lock);
    for (int i = 0; i < peer->n_tenants; i++)
        peer->tenants[i].head = peer->tenants[i].tail;
    while (peer->busy)
        pthread_cond_wait(&peer->idle, &peer->lock);
    pthread_mutex_unlock(&peer->lock);
}

/* Blocking; OpenVINO does not run the callback for it. */
static int ov_solo(void *self, int tenant, moire_error *err) {
    struct ov_peer *peer = self;
    return check(ov_infer_request_infer(peer->tenants[tenant].slots[0].request), "running", "solo", err);
}

static void ov_close(void *self) {
    struct ov_peer *peer = self;
    pthread_mutex_lock(&peer->lock);
    peer->quit = true;
    pthread_cond_signal(&peer->work);
    pthread_mutex_unlock(&peer->lock);
    if (peer->started) pthread_join(peer->dispatcher, NULL);
    for (int i = 0; peer->tenants && i < peer->n_tenants; i++) {
        struct ov_tenant *t = &peer->tenants[i];
        for (int k = 0; k < t->n_slots; k++)
            ov_infer_request_free(t->slots[k].request);
        for (size_t k = 0; k < t->n_inputs; k++)
            if (t->inputs[k]) ov_tensor_free(t->inputs[k]);
        if (t->compiled) ov_compiled_model_free(t->compiled);
        mo_free(peer->env, t->fifo);
    }
    if (peer->core) ov_core_free(peer->core);
    mo_free(peer->env, peer->tenants);
    mo_free(peer->env, peer);
}

static int ov_open(const struct mo_env *env, const struct mo_bench_job *job, void **self, moire_error *err) {
    struct ov_peer *peer = mo_alloc(env, sizeof *peer);
    if (!peer) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    peer->env = env;
    pthread_mutex_init(&peer->lock, NULL);
    pthread_cond_init(&peer->work, NULL);
    pthread_cond_init(&peer->idle, NULL);
    peer->tenants = mo_alloc(env, (size_t)job->n_tenants * sizeof *peer->tenants);
    peer->n_tenants = job->n_tenants;
    int code = peer->tenants ? check(ov_core_create(&peer->core), "core", "start", err)
                             : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = load_tenant(peer, job, i, err);
    if (!code && pthread_create(&peer->dispatcher, NULL, dispatch, peer))
        code = mo_fail(err, MOIRE_EIO, "openvino: no thread");
    if (code) {
        ov_close(peer);
        return code;
    }
    peer->started = true;
    *self = peer;
    return MOIRE_OK;
}

int main(int argc, char **argv) {
    const struct mo_bench_backend backend = {
        .open = ov_open, .solo = ov_solo, .issue = ov_issue, .stop = ov_stop, .close = ov_close};
    if (argc != 2) {
        fprintf(stderr, "usage: openvino-runner JOB.json (started by `moire bench`)\n");
        return 2;
    }
    struct mo_env env = mo_env_default();
    return mo_bench_runner(&env, &backend, argv[1]);
}
