/* SPDX-License-Identifier: Apache-2.0
 * child_life.c - the process of the GPUs: started, filled with what there is, started anew when it has ended;
 * see child_impl.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/gpu/child/child_impl.h"

static const int64_t BACKOFF_MOST_NS = 10000000000, REAP_NS = 2000000000;

static void set_up(struct mo_gpu_system *s, uint32_t up) {
    atomic_store(&s->up, up);
    mo_child_ring_all(s);
}

/* --- the end of a child --------------------------------------------------------------------------------- */
static void wake_all(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    for (int i = 0; i < MO_CHILD_SLOTS; i++) {
        atomic_fetch_add(&s->channel->slots[i].doorbell, 1);
        sys->shared_wake(sys->self, &s->channel->slots[i].doorbell, INT32_MAX);
    }
    atomic_fetch_add(&s->channel->up.doorbell, 1);
    sys->shared_wake(sys->self, &s->channel->up.doorbell, INT32_MAX);
    mo_child_ring_all(s);
}

/* The stream carries nothing: what it reads is its end. */
static void *watch_link(void *system) {
    struct mo_gpu_system *s = system;
    const struct mo_sys *sys = s->env->sys;
    char byte;
    ssize_t n;
    do
        n = sys->read(sys->self, s->process.link, &byte, 1);
    while (n > 0 || (n == -EAGAIN && !atomic_load(&s->gone)));
    atomic_store(&s->gone, true);
    wake_all(s);
    return NULL;
}

static void wait_gone(struct mo_gpu_system *s) {
    for (;;) {
        const uint32_t doorbell = atomic_load(&s->doorbell);
        if (atomic_load(&s->gone)) return;
        s->env->sys->futex_wait(s->env->sys->self, &s->doorbell, doorbell, 0);
    }
}

static void why_it_ended(struct mo_gpu_system *s, int pid, int status) {
    mo_child_lock(s);
    if (s->reason[0] == 0 && status == -ETIMEDOUT)
        snprintf(s->reason, sizeof s->reason, "the process of the GPUs (%d) was killed and does not end",
                 pid);
    else if (s->reason[0] == 0 && status == MO_CHILD_VERSION_EXIT)
        snprintf(s->reason, sizeof s->reason, "%.400s is of another version of moire", s->helper);
    else if (s->reason[0] == 0 && status > 128)
        snprintf(s->reason, sizeof s->reason, "the process of the GPUs (%d) was ended by signal %d", pid,
                 status - 128);
    else if (s->reason[0] == 0)
        snprintf(s->reason, sizeof s->reason, "the process of the GPUs (%d) has ended with status %d", pid,
                 status);
    mo_child_unlock(s);
}

/* Ends the process; what it could still write to, a GPU's last copies too, is left alone until it has ended,
 * or for a while when it does not. */
static void end_process(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    const int pid = s->process.pid;
    sys->kill_process(sys->self, &s->process);
    const int status = sys->end_process(sys->self, &s->process, mo_now(s->env) + REAP_NS);
    why_it_ended(s, pid, status);
}

/* A process that the kernel cannot end yet (a driver that waits for its GPU) holds the GPU. */
static void wait_process(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    while (s->process.pid > 0 && !atomic_load(&s->closing))
        sys->end_process(sys->self, &s->process, mo_now(s->env) + REAP_NS);
}

static void drop_channel(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    if (s->channel) sys->unmap(sys->self, s->channel, sizeof *s->channel);
    if (s->channel_fd >= 0) sys->close(sys->self, s->channel_fd);
    s->channel = NULL;
    s->channel_fd = -1;
}

/* Nothing of the child is left after: runs are answered, nobody reads its channel. */
static void take_down(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    char reason[MO_CHILD_TEXT + 100];
    mo_child_lock(s);
    atomic_store(&s->up, MO_CHILD_DOWN);
    atomic_store(&s->lost, true); /* nobody else ends it from here on */
    s->stats.pid = -1;
    mo_child_unlock(s);
    end_process(s);
    atomic_store(&s->gone, true);
    sys->thread_join(sys->self, s->link);
    sys->thread_join(sys->self, s->answers);
    sys->close(sys->self, s->process.link);
    snprintf(reason, sizeof reason, "%s; the process of the GPUs is started anew", s->reason);
    mo_child_answer_all(s, reason);
    mo_child_lock(s);
    while (s->inside) {
        const uint32_t doorbell = atomic_load(&s->doorbell);
        mo_child_unlock(s);
        sys->futex_wait(sys->self, &s->doorbell, doorbell, 0);
        mo_child_lock(s);
    }
    for (int i = 0; i < MO_CHILD_LETS; i++)
        if (s->lets[i]) s->lets[i]->there = false;
    for (int i = 0; i < MO_CHILD_PROGRAMS; i++)
        if (s->programs[i]) s->programs[i]->there = false;
    for (int i = 0; i < MO_CHILD_BUFFERS; i++)
        s->buffers[i].there = false;
    mo_child_unlock(s);
    drop_channel(s);
}

/* --- the begin of a child ------------------------------------------------------------------------------- */
static int make_channel(struct mo_gpu_system *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    void *at;
    int rc = s->channel_fd = sys->shared_file(sys->self, "moire-gpu-channel");
    if (rc >= 0) rc = sys->grow(sys->self, s->channel_fd, sizeof *s->channel);
    if (rc >= 0) rc = sys->map_shared(sys->self, s->channel_fd, 0, sizeof *s->channel, &at);
    if (rc < 0)
        return mo_fail(err, MOIRE_ENOMEM, "no shared memory for a process of GPUs: %s", strerror(-rc));
    s->channel = at;
    s->channel->magic = MO_CHILD_MAGIC;
    s->channel->bytes = sizeof *s->channel;
    s->channel->parent = (int32_t)getpid();
    return MOIRE_OK;
}

/* The process and the two threads that see it; all or nothing. */
static int start(struct mo_gpu_system *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    const char *argv[] = {s->helper, NULL};
    const int fds[] = {s->channel_fd, s->pool_fd};
    int rc = sys->start_process(sys->self, argv, fds, 2, &s->process);
    if (rc)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "cannot start %s: %s (\"child:FILE\" names another)",
                       s->helper, strerror(-rc));
    rc = sys->thread_start(sys->self, &s->link, watch_link, s);
    if (!rc) {
        rc = sys->thread_start(sys->self, &s->answers, mo_child_take_answers, s);
        if (!rc) return MOIRE_OK;
    }
    sys->kill_process(sys->self, &s->process);
    if (s->link.handle) sys->thread_join(sys->self, s->link);
    sys->end_process(sys->self, &s->process, 0);
    sys->close(sys->self, s->process.link);
    return mo_fail(err, MOIRE_EIO, "cannot start a thread for the process of the GPUs: %s", strerror(-rc));
}

/* As many GPUs of the same shape as in the first child. */
static int meet_gpus(struct mo_gpu_system *s, int64_t n, moire_error *err) {
    struct mo_child_reply reply;
    if (n < 1 || n > MO_GPU_MAX || (s->info && n != s->n_gpus))
        return mo_fail(err, MOIRE_EDEVICE, "a process of GPUs has %lld of them, not %d", (long long)n,
                       s->n_gpus);
    struct mo_gpu_info *info = s->info ? s->info : mo_alloc(s->env, (size_t)n * sizeof *info);
    if (!info) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the GPUs");
    int code = MOIRE_OK;
    for (int i = 0; i < n && !code; i++) {
        code = mo_child_ask(s, &(struct mo_child_ask){.kind = MO_CHILD_DESCRIBE, .n = {i}}, &reply, err);
        struct mo_gpu_info is = reply.info;
        is.name[sizeof is.name - 1] = is.bus[sizeof is.bus - 1] = 0;
        if (!code && (is.units < 1 || is.units > MO_GPU_UNITS || (s->info && is.units != info[i].units)))
            code = mo_fail(err, MOIRE_EDEVICE, "GPU %d of a process of GPUs has %d units", i, is.units);
        if (!code && !s->info) info[i] = is;
    }
    if (s->info) return code; /* read without the lock from the first child on: they stay what they were */
    if (code) {
        mo_free(s->env, info);
        return code;
    }
    s->info = info;
    s->n_gpus = (int)n;
    return MOIRE_OK;
}

static int open_plugin(struct mo_gpu_system *s, moire_error *err) {
    const struct mo_gpu_config *c = &s->config;
    struct mo_child_reply reply;
    struct mo_child_ask ask = {
        .kind = MO_CHILD_OPEN, .n = {c->queue, MO_GPU_ABI, c->libraries_first}, .x = {c->hang_ns, c->memory}};
    snprintf(ask.text[0], sizeof ask.text[0], "%s", s->plugin);
    snprintf(ask.text[1], sizeof ask.text[1], "%s", s->folder);
    snprintf(ask.text[2], sizeof ask.text[2], "%s", s->cache);
    int code = mo_child_ask(s, &ask, &reply, err);
    return code ? code : meet_gpus(s, reply.x, err);
}

/* Makes the lets anew in the new child.  Whoever uses a let that is refused is told why; MOIRE_EDEVICE: the
 * child has ended. */
static int restore_lets(struct mo_gpu_system *s) {
    int code = MOIRE_OK;
    for (int i = 0; i < MO_CHILD_LETS && code != MOIRE_EDEVICE; i++) {
        struct mo_gpu_let *let = s->lets[i];
        if (!let) continue;
        let->refused = (moire_error){0};
        code = mo_child_ask_let(let, &let->refused);
        let->there = !code;
    }
    return code;
}

static int restore_graphs(struct mo_gpu_system *s, struct mo_gpu_loaded *p) {
    moire_error err;
    int code = MOIRE_OK;
    for (int i = 0; i < MO_CHILD_LETS && code != MOIRE_EDEVICE; i++) {
        struct mo_gpu_let *let = s->lets[i];
        if (!let || !let->there || let->gpu != p->gpu || !(p->prepared & UINT32_C(1) << (let->units - 1)))
            continue;
        code = mo_child_tell(s, MO_CHILD_PREPARE, p->id, let->id, &err);
        if (code)
            mo_log(s->env, MOIRE_LOG_WARN, "GPU %d: graphs are made when they run: %s", p->gpu, err.message);
    }
    return code;
}

static int restore_programs(struct mo_gpu_system *s) {
    int code = MOIRE_OK;
    for (int i = 0; i < MO_CHILD_PROGRAMS && code != MOIRE_EDEVICE; i++) {
        struct mo_gpu_loaded *p = s->programs[i];
        if (!p) continue;
        p->refused = (moire_error){0};
        code = mo_child_ask_program(p, &p->refused);
        p->there = !code;
        if (!code) code = restore_graphs(s, p);
    }
    return code;
}

static int restore(struct mo_gpu_system *s, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; i < MO_CHILD_BUFFERS && !code; i++)
        if (s->buffers[i].at) {
            code = mo_child_ask_buffer(s, i, err);
            s->buffers[i].there = !code;
        }
    if (!code && restore_lets(s) == MOIRE_EDEVICE) code = MOIRE_EDEVICE;
    if (!code && restore_programs(s) == MOIRE_EDEVICE) code = MOIRE_EDEVICE;
    if (code == MOIRE_EDEVICE) {
        mo_child_lock(s);
        mo_child_absent(s, err);
        mo_child_unlock(s);
    }
    return code;
}

/* A child that serves, or none. */
static int bring_up(struct mo_gpu_system *s, moire_error *err) {
    int code = make_channel(s, err);
    mo_child_lock(s);
    atomic_store(&s->gone, false);
    atomic_store(&s->lost, false);
    s->link = (struct mo_thread){0};
    s->tail = s->head = s->progress = 0;
    s->lost_at = 0;
    s->slots = 0;
    s->child++;
    mo_child_unlock(s);
    if (!code) code = start(s, err);
    if (code) {
        drop_channel(s);
        return code;
    }
    mo_child_lock(s);
    s->reason[0] = 0; /* the last child's; from here on it is this one's */
    atomic_store(&s->up, MO_CHILD_RESTORING);
    mo_child_unlock(s);
    code = open_plugin(s, err);
    if (!code) code = restore(s, err);
    if (code) {
        take_down(s);
        return code == MOIRE_EDEVICE ? mo_fail(err, code, "%s", s->reason) : code;
    }
    mo_child_lock(s);
    s->stats.pid = s->process.pid;
    s->stats.started++;
    mo_child_unlock(s);
    set_up(s, MO_CHILD_UP);
    return MOIRE_OK;
}

/* --- life ----------------------------------------------------------------------------------------------- */
static void pause_for(struct mo_gpu_system *s, int64_t ns) {
    const int64_t until = mo_now(s->env) + ns;
    while (!atomic_load(&s->closing) && mo_now(s->env) < until) {
        const uint32_t doorbell = atomic_load(&s->doorbell);
        if (!atomic_load(&s->closing))
            s->env->sys->futex_wait(s->env->sys->self, &s->doorbell, doorbell, until);
    }
}

static void tell_first(struct mo_gpu_system *s, int code, const moire_error *err) {
    mo_child_lock(s);
    if (!s->tried && code) s->first = *err;
    s->tried = true;
    mo_child_unlock(s);
    mo_child_ring_all(s);
}

void *mo_child_live(void *system) {
    struct mo_gpu_system *s = system;
    int64_t wait = 0, ended = 0;
    for (bool first = true;; first = false) {
        moire_error err = {0};
        const int code = bring_up(s, &err);
        const int64_t born = mo_now(s->env);
        tell_first(s, code, &err);
        if (!code) {
            mo_child_lock(s);
            if (ended && born - ended > s->stats.down_ns) s->stats.down_ns = born - ended;
            mo_child_unlock(s);
            if (!first)
                mo_log(s->env, MOIRE_LOG_WARN, "the GPUs serve again, after %.3f s",
                       (double)(born - ended) * 1e-9);
            if (atomic_load(&s->closing)) mo_child_lose(s, true, "it was closed");
            wait_gone(s);
            ended = mo_now(s->env);
            take_down(s);
            if (ended - born > s->bounds.settled_ns) wait = 0;
        }
        if ((code && first) || atomic_load(&s->closing)) break;
        mo_child_lock(s);
        s->stats.lost += !code;
        mo_child_unlock(s);
        mo_log(s->env, MOIRE_LOG_ERROR, "%s; the process of the GPUs is started anew",
               code ? err.message : s->reason);
        wait_process(s);
        pause_for(s, wait);
        wait = !wait ? s->bounds.backoff_ns : 2 * wait < BACKOFF_MOST_NS ? 2 * wait : BACKOFF_MOST_NS;
        if (atomic_load(&s->closing)) break;
    }
    set_up(s, MO_CHILD_CLOSED);
    return NULL;
}
