/* SPDX-License-Identifier: Apache-2.0
 * exec_choose.c - how every operation of a program is done on so many SMs.
 *
 * A convolution or product goes to its library, with the algorithm that was fastest on the stream at hand;
 * where the library refuses, the generated kernel serves.  Convolutions with few channels or with groups are
 * hard on libraries: there both are timed.  All of it runs in memory of its own, so that programs in service
 * are not disturbed.  What an earlier process chose is taken over (exec_recall.c).  At last the program runs
 * once as it was chosen, for what has never run cannot be captured. */
#include "runtime/gpu/cuda/exec.h"

#include <string.h>

enum { WARM = 1, RUNS = 3 };

mo_cu_ptr mo_exec_address(const struct mo_gpu_loaded *l, const struct mo_gpu_place *p, mo_cu_ptr arena) {
    if (p->space == MO_GPU_NONE) return 0;
    return (p->space == MO_GPU_ARENA ? arena : l->weights[p->index]->at) + (mo_cu_ptr)p->offset;
}

static mo_cu_ptr space_of(const struct mo_gpu_loaded *l, mo_cu_ptr arena) {
    return arena + (mo_cu_ptr)(l->arena_bytes - l->space);
}

struct mo_dnn_operands mo_exec_conv_operands(const struct mo_gpu_loaded *l, const struct mo_gpu_conv *c,
                                             mo_cu_ptr arena) {
    const bool zeros = c->k * (int64_t)sizeof(float) <= MO_EXEC_ZEROS;
    return (struct mo_dnn_operands){.x = mo_exec_address(l, &c->x, arena),
                                    .weights = mo_exec_address(l, &c->weights, arena),
                                    .bias = mo_exec_address(l, &c->bias, arena),
                                    .residual = mo_exec_address(l, &c->residual, arena),
                                    .y = mo_exec_address(l, &c->y, arena),
                                    .space = space_of(l, arena),
                                    .zeros = zeros ? l->exec->zeros : 0};
}

static struct mo_blas_operands gemm_operands(const struct mo_gpu_loaded *l, const struct mo_gpu_gemm *g,
                                             mo_cu_ptr arena) {
    return (struct mo_blas_operands){.a = mo_exec_address(l, &g->a.at, arena),
                                     .b = mo_exec_address(l, &g->b.at, arena),
                                     .bias = mo_exec_address(l, &g->bias, arena),
                                     .c = mo_exec_address(l, &g->c.at, arena),
                                     .d = mo_exec_address(l, &g->d.at, arena),
                                     .space = space_of(l, arena)};
}

static int launch(struct mo_gpu_loaded *l, const struct mo_gpu_op *op, mo_cu_ptr arena, mo_cu_stream stream,
                  moire_error *err) {
    mo_cu_ptr value[MO_GPU_ARGS];
    void *arguments[MO_GPU_ARGS];
    const struct mo_gpu_kernel *k = &l->program.kernels[op->launch.kernel];
    for (int i = 0; i < op->launch.n_args; i++) {
        value[i] = mo_exec_address(l, &op->launch.args[i], arena);
        arguments[i] = &value[i];
    }
    unsigned r = l->exec->cu->launch(l->functions[op->launch.kernel], k->grid[0], k->grid[1], k->grid[2],
                                     k->block[0], k->block[1], k->block[2], 0, stream, arguments, NULL);
    return r ? mo_cuda_error(l->exec->cu, r, err, "%.200s: start %s", op->label, k->symbol) : MOIRE_OK;
}

static size_t y_bytes(const struct mo_gpu_loaded *l, const struct mo_gpu_conv *c) {
    return (size_t)(c->n * c->oh * c->ow * c->k * mo_gpu_storage_bytes(l->program.precision));
}

int mo_exec_enqueue(struct mo_gpu_loaded *l, const struct mo_exec_choice *choice, int index, mo_cu_ptr arena,
                    mo_cu_stream stream, moire_error *err) {
    const struct mo_gpu_op *op = &l->program.ops[index];
    int rc;
    if (choice->way == MO_GPU_BY_CORE) return mo_exec_core_enqueue(l, index, arena, stream, err);
    if (choice->way == MO_GPU_BY_DNN) {
        const struct mo_dnn_operands o = mo_exec_conv_operands(l, &op->conv, arena);
        rc = mo_cuda_dnn_run(&l->exec->dnn, &op->conv, &choice->dnn, &o, y_bytes(l, &op->conv), stream, err);
    } else if (choice->way == MO_GPU_BY_BLAS) {
        const struct mo_blas_operands o = gemm_operands(l, &op->gemm, arena);
        rc = mo_cuda_blas_run(&l->exec->blas, &op->gemm, &choice->blas, &o, stream, err);
    } else {
        return launch(l, op, arena, stream, err);
    }
    return rc ? mo_fail_context(err, rc, "%.200s", op->label) : MOIRE_OK;
}

/* --- choosing ------------------------------------------------------------------------------------------- */

/* Milliseconds of one run, the least of some; negative: it fails. */
static double time_of(const struct mo_exec_trial *t, const struct mo_exec_choice *choice, int index) {
    const struct mo_cuda_driver *cu = t->loaded->exec->cu;
    double best = -1;
    for (int i = 0; i < WARM + RUNS; i++) {
        float ms = 0;
        moire_error err;
        if (cu->event_record(t->begin, t->stream) ||
            mo_exec_enqueue(t->loaded, choice, index, t->arena, t->stream, &err) ||
            cu->event_record(t->end, t->stream) || mo_exec_wait(t->loaded->exec, t->stream) ||
            cu->event_elapsed(&ms, t->begin, t->end))
            return -1;
        if (i >= WARM && (best < 0 || (double)ms < best)) best = (double)ms;
    }
    return best;
}

/* Chooses the fastest of what the library can do; false: nothing of it runs. */
static bool choose_fastest(const struct mo_exec_trial *t, struct mo_exec_choice *choice, int index) {
    const bool dnn = choice->way == MO_GPU_BY_DNN;
    double best = -1;
    int chosen = -1;
    for (int i = 0, n = dnn ? choice->dnn.n : choice->blas.n; i < n; i++) {
        *(dnn ? &choice->dnn.chosen : &choice->blas.chosen) = i;
        const double ms = time_of(t, choice, index);
        if (ms < 0 || (best >= 0 && ms >= best)) continue;
        best = ms;
        chosen = i;
    }
    *(dnn ? &choice->dnn.chosen : &choice->blas.chosen) = chosen < 0 ? 0 : chosen;
    return chosen >= 0;
}

static int choose_conv(const struct mo_exec_trial *t, int index, struct mo_exec_choice *choice,
                       moire_error *err) {
    struct mo_gpu_loaded *l = t->loaded;
    const struct mo_gpu_conv *c = &l->program.ops[index].conv;
    const struct mo_dnn_operands o = mo_exec_conv_operands(l, c, t->arena);
    int rc = mo_cuda_dnn_plan(&l->exec->dnn, c, l->program.precision, &o, mo_exec_space(l->exec), t->stream,
                              &choice->dnn, err);
    if (rc) return rc;
    choice->way = MO_GPU_BY_DNN;
    if (choice->dnn.n > 1) (void)choose_fastest(t, choice, index); /* each has run already */
    if (!mo_exec_tries_kernel(l->exec, &l->program.ops[index])) return MOIRE_OK;
    const struct mo_exec_choice kernel = {.way = MO_GPU_BY_KERNEL, .timed = true};
    const double library = time_of(t, choice, index), own = time_of(t, &kernel, index);
    if (own < 0 || library <= own) return MOIRE_OK;
    mo_cuda_dnn_plan_free(&l->exec->dnn, &choice->dnn);
    *choice = kernel;
    return MOIRE_OK;
}

static int choose_gemm(const struct mo_exec_trial *t, int index, struct mo_exec_choice *choice,
                       moire_error *err) {
    struct mo_gpu_loaded *l = t->loaded;
    int rc = mo_cuda_blas_plan(&l->exec->blas, &l->program.ops[index].gemm, l->program.precision, t->sms,
                               mo_exec_space(l->exec), &choice->blas, err);
    if (rc) return rc;
    choice->way = MO_GPU_BY_BLAS;
    if (choose_fastest(t, choice, index)) return MOIRE_OK;
    mo_cuda_blas_plan_free(&l->exec->blas, &choice->blas);
    *choice = (struct mo_exec_choice){.way = MO_GPU_BY_KERNEL};
    return mo_fail(err, MOIRE_EUNSUPPORTED, "no algorithm of cuBLASLt runs");
}

/* Networks repeat their layers: what was chosen for an operation of the same sizes holds for this one too,
 * and trying a convolution out takes a tenth of a second. */
static bool choose_as_before(const struct mo_exec_trial *t, int index, struct mo_exec_choices *all) {
    const struct mo_gpu_op *ops = t->loaded->program.ops;
    int i = 0;
    while (i < index && !mo_exec_alike(&ops[i], &ops[index]))
        i++;
    const struct mo_exec_record record = mo_exec_record_of(&all->of[i]);
    return i < index && mo_exec_choose_as(t, &record, index, &all->of[index]);
}

/* A library that refuses is no error: the generated kernel is there. */
static int try_one(const struct mo_exec_trial *t, int index, struct mo_exec_choice *out, moire_error *err) {
    const struct mo_cuda_exec *e = t->loaded->exec;
    const struct mo_gpu_op *op = &t->loaded->program.ops[index];
    moire_error why = {0};
    int rc = MOIRE_OK;
    if (op->kind == MO_GPU_CONV && e->has_dnn) rc = choose_conv(t, index, out, &why);
    if (op->kind == MO_GPU_GEMM && e->has_blas) rc = choose_gemm(t, index, out, &why);
    if (rc && rc != MOIRE_EUNSUPPORTED) return mo_fail(err, rc, "%.200s: %s", op->label, why.message);
    if (out->way == MO_GPU_BY_KERNEL && op->launch.kernel < 0)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%.200s: no library and no kernel for this", op->label);
    if (rc) mo_log(e->env, MOIRE_LOG_WARN, "%.200s: %s; its generated kernel runs", op->label, why.message);
    return MOIRE_OK;
}

/* The generated kernels that run in a library's stead: few, or all of a library that is of no use. */
static int load_stand_ins(struct mo_gpu_loaded *l, const struct mo_exec_choices *choices, moire_error *err) {
    bool *wanted = mo_alloc(l->exec->env, (size_t)l->program.n_kernels + 1);
    if (!wanted) return mo_fail(err, MOIRE_ENOMEM, "no host memory to prepare a program");
    for (int i = 0; i < l->program.n_ops; i++)
        if (choices->of[i].way == MO_GPU_BY_KERNEL) wanted[l->program.ops[i].launch.kernel] = true;
    const int rc = mo_exec_code_load(l, wanted, err);
    mo_free(l->exec->env, wanted);
    return rc;
}

static int choose_all(const struct mo_exec_trial *t, struct mo_exec_choices *out, moire_error *err) {
    struct mo_gpu_loaded *l = t->loaded;
    struct mo_exec_recall recall;
    bool anew = false; /* some choice was not taken over */
    int rc = MOIRE_OK;
    mo_exec_recall_begin(l, t->sms, &recall);
    for (int i = 0; i < l->program.n_ops && !rc; i++) {
        if (recall.record && mo_exec_choose_as(t, &recall.record[i], i, &out->of[i])) continue;
        if (l->program.ops[i].kind == MO_GPU_CORE) {
            out->of[i].way = MO_GPU_BY_CORE;
            continue;
        }
        anew = true;
        if (!choose_as_before(t, i, out)) rc = try_one(t, i, &out->of[i], err);
    }
    if (!rc) rc = load_stand_ins(l, out, err);
    if (!rc && anew && !recall.of_another) mo_exec_remember(l, &recall, out);
    mo_cuda_cache_give_back(l->exec->cache, &recall.cached);
    return rc;
}

/* Memory to try kernels out, which stays for the next program: to give memory back waits for whatever runs on
 * the GPU, and others are served meanwhile. */
static unsigned trial_memory(struct mo_cuda_exec *e, size_t bytes) {
    if (bytes <= e->trial_bytes) return 0;
    if (e->trial) e->cu->memory_free(e->trial);
    e->trial = 0;
    e->trial_bytes = 0;
    const unsigned r = e->cu->memory_alloc(&e->trial, bytes);
    if (!r) e->trial_bytes = bytes;
    return r;
}

/* The whole program, on an input of zeros.  The driver loads a function when it runs for the first time, and
 * cannot while a stream is captured; what was taken over from an earlier process or from a like operation may
 * not have run in this one. */
static int run_once(const struct mo_exec_trial *t, const struct mo_exec_choices *choices, size_t bytes,
                    moire_error *err) {
    struct mo_gpu_loaded *l = t->loaded;
    const unsigned r = l->exec->cu->fill(t->arena, 0, bytes, t->stream);
    int rc = r ? mo_cuda_error(l->exec->cu, r, err, "clear memory to try a program out") : MOIRE_OK;
    for (int i = 0; i < l->program.n_ops && !rc; i++)
        rc = mo_exec_enqueue(l, &choices->of[i], i, t->arena, t->stream, err);
    return rc;
}

static int try_out(struct mo_gpu_loaded *l, const struct mo_cuda_target *target, struct mo_exec_choices *out,
                   moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    struct mo_exec_trial t = {.loaded = l,
                              .stream = target->stream,
                              .begin = target->marks[0],
                              .end = target->marks[1],
                              .sms = target->sms};
    const size_t bytes = (size_t)l->arena_bytes + 1;
    unsigned r = trial_memory(l->exec, bytes);
    t.arena = l->exec->trial;
    if (!r) r = cu->fill(t.arena, 0, bytes, t.stream);
    int rc = r ? mo_cuda_error(cu, r, err, "take %.1f MB to try kernels out", (double)bytes * 1e-6)
               : choose_all(&t, out, err);
    if (!rc) rc = run_once(&t, out, bytes, err);
    r = mo_exec_wait(l->exec, t.stream);
    if (r) rc = mo_cuda_error(cu, r, err, "try kernels out"); /* whatever failed before, this is why */
    return rc;
}

static void free_choices(struct mo_gpu_loaded *l, struct mo_exec_choices *c) {
    for (int i = 0; i < l->program.n_ops; i++) {
        if (c->of[i].way == MO_GPU_BY_DNN) mo_cuda_dnn_plan_free(&l->exec->dnn, &c->of[i].dnn);
        if (c->of[i].way == MO_GPU_BY_BLAS) mo_cuda_blas_plan_free(&l->exec->blas, &c->of[i].blas);
    }
    mo_free(l->exec->env, c);
}

int mo_exec_choose(struct mo_gpu_loaded *l, const struct mo_cuda_target *target, struct mo_exec_choices **out,
                   moire_error *err) {
    for (struct mo_exec_choices *c = l->choices; c; c = c->next)
        if (c->sms == target->sms) {
            *out = c;
            return MOIRE_OK;
        }
    struct mo_exec_choices *c =
        mo_alloc(l->exec->env, sizeof *c + (size_t)l->program.n_ops * sizeof c->of[0]);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "no host memory to prepare a program");
    c->sms = target->sms;
    int rc = try_out(l, target, c, err);
    if (rc) {
        free_choices(l, c);
        return rc;
    }
    c->next = l->choices;
    l->choices = *out = c;
    return MOIRE_OK;
}

void mo_exec_choices_free(struct mo_gpu_loaded *l) {
    while (l->choices) {
        struct mo_exec_choices *c = l->choices;
        l->choices = c->next;
        free_choices(l, c);
    }
}
