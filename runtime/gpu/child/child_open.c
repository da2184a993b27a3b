/* SPDX-License-Identifier: Apache-2.0
 * child_open.c - a system whose GPUs are in a process of their own: opened and closed; the process itself
 * lives in child_life.c. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/child/child_impl.h"

static const struct mo_gpu_child_bounds usual = {.load_timeout_ns = 10000000000,
                                                 .stuck_ns = 120000000000,
                                                 .backoff_ns = 100000000,
                                                 .settled_ns = 10000000000};
static const int64_t QUIT_NS = 10000000000, HANG_NS = 10000000000;

/* Beside this library or program, in libexec of its prefix (which is two folders up where libraries have a
 * folder for each architecture), or in the folder above (of a build's tests). */
static int find_helper(struct mo_gpu_system *s, const char *process, moire_error *err) {
    static const char *const places[] = {"", "/../libexec", "/../../libexec", "/.."};
    const struct mo_sys *sys = s->env->sys;
    char folder[900] = "";
    const char *colon = strchr(process, ':');
    if (colon) {
        snprintf(s->helper, sizeof s->helper, "%s", colon + 1);
        return MOIRE_OK;
    }
    sys->own_folder(sys->self, folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(s->helper, sizeof s->helper, "%s%s/moire-gpu-child", folder, places[i]);
        const int fd = sys->open(sys->self, s->helper, O_RDONLY, 0);
        if (fd < 0) continue;
        sys->close(sys->self, fd);
        return MOIRE_OK;
    }
    return mo_fail(err, MOIRE_EUNSUPPORTED,
                   "there is no moire-gpu-child in %s or in ../libexec of it; \"child:FILE\" names another",
                   folder);
}

static int make_tables(struct mo_gpu_system *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    s->buffers = mo_alloc(s->env, MO_CHILD_BUFFERS * sizeof *s->buffers);
    s->by_address = mo_alloc(s->env, (MO_CHILD_BUFFERS + 1) * sizeof *s->by_address);
    if (!s->buffers || !s->by_address) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the GPUs");
    s->pool_fd = sys->shared_file(sys->self, "moire-gpu-pool");
    if (s->pool_fd >= 0) return MOIRE_OK;
    return mo_fail(err, MOIRE_ENOMEM, "no shared memory for a process of GPUs: %s", strerror(-s->pool_fd));
}

static int begin(struct mo_gpu_system *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    const int rc = sys->thread_start(sys->self, &s->life, mo_child_live, s);
    if (rc)
        return mo_fail(err, MOIRE_EIO, "cannot start the thread that watches the GPUs: %s", strerror(-rc));
    s->living = true;
    for (;;) {
        const uint32_t doorbell = atomic_load(&s->doorbell);
        mo_child_lock(s);
        const bool tried = s->tried;
        const moire_error first = s->first;
        mo_child_unlock(s);
        if (tried && first.code && err) *err = first;
        if (tried) return first.code;
        sys->futex_wait(sys->self, &s->doorbell, doorbell, 0);
    }
}

static void destroy(struct mo_gpu_system *s) {
    const struct mo_sys *sys = s->env->sys;
    if (s->living) sys->thread_join(sys->self, s->life);
    for (int i = 0; i < MO_CHILD_LETS; i++)
        mo_free(s->env, s->lets[i]);
    for (int i = 0; i < MO_CHILD_PROGRAMS; i++)
        mo_child_program_unload(s->programs[i]);
    while (s->buffers && s->by_address && s->n_buffers)
        mo_child_staging_free(s, s->buffers[s->by_address[0]].at);
    if (s->pool_fd >= 0) sys->close(sys->self, s->pool_fd);
    if (s->process.pid > 0 && s->process.handle >= 0) /* killed, and the kernel cannot end it yet */
        sys->close(sys->self, s->process.handle);
    mo_free(s->env, s->by_address);
    mo_free(s->env, s->buffers);
    mo_free(s->env, s->info);
    mo_free(s->env, s);
}

int mo_child_open(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err) {
    if (!config->env || !config->plugin)
        return mo_fail(err, MOIRE_EINVAL, "a process of GPUs needs an environment and a plugin");
    if (config->queue < 0 || config->queue > MO_CHILD_QUEUE)
        return mo_fail(err, MOIRE_EINVAL, "at most %d runs are queued on a let", MO_CHILD_QUEUE);
    struct mo_gpu_system *s = mo_alloc(config->env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the GPUs");
    s->env = config->env;
    s->config = *config;
    s->bounds = usual;
    s->pool_fd = s->channel_fd = -1;
    s->stats.pid = -1;
    if (!s->config.queue) s->config.queue = 2;
    if (!s->config.hang_ns) s->config.hang_ns = HANG_NS;
    int code = MOIRE_OK;
    if ((size_t)snprintf(s->plugin, sizeof s->plugin, "%s", config->plugin) >= sizeof s->plugin ||
        (size_t)snprintf(s->folder, sizeof s->folder, "%s", config->path ? config->path : "") >=
            sizeof s->folder ||
        (size_t)snprintf(s->cache, sizeof s->cache, "%s", config->cache ? config->cache : "") >=
            sizeof s->cache)
        code = mo_fail(err, MOIRE_ELIMIT, "too long a path of a plugin, its libraries or its cache");
    if (!code) code = find_helper(s, config->process ? config->process : "child", err);
    if (!code) code = make_tables(s, err);
    if (!code) code = begin(s, err);
    if (code)
        destroy(s);
    else
        *out = s;
    return code;
}

/* Runs end, or count as hung; then the child says goodbye, so that its plugin closes. */
void mo_child_close(struct mo_gpu_system *s) {
    if (!s) return;
    const struct mo_sys *sys = s->env->sys;
    for (;;) {
        mo_child_lock(s);
        const int n = s->n_runs;
        mo_child_unlock(s);
        if (!n) break;
        sys->sleep_until(sys->self, mo_now(s->env) + 1000000);
    }
    atomic_store(&s->closing, true);
    mo_child_ring_all(s);
    if (!mo_child_enter(s, 0, NULL)) {
        mo_child_lock(s);
        if (s->bounds.stuck_ns > QUIT_NS) s->bounds.stuck_ns = QUIT_NS;
        mo_child_unlock(s);
        mo_child_tell(s, MO_CHILD_QUIT, 0, 0, NULL);
        mo_child_leave(s);
    }
    destroy(s);
}

void mo_gpu_child_bounds(struct mo_gpu_system *s, const struct mo_gpu_child_bounds *b) {
    mo_child_lock(s);
    if (b->load_timeout_ns) s->bounds.load_timeout_ns = b->load_timeout_ns;
    if (b->stuck_ns) s->bounds.stuck_ns = b->stuck_ns;
    if (b->backoff_ns) s->bounds.backoff_ns = b->backoff_ns;
    if (b->settled_ns) s->bounds.settled_ns = b->settled_ns;
    mo_child_unlock(s);
}
