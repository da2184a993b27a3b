/* SPDX-License-Identifier: Apache-2.0
 * contact.c - gpu-contact: what the plugin assumes of driver and libraries, asked one by one in half a
 * minute.
 *
 * Each probe runs in a process of its own, for an error of the GPU sticks to the process: it ends one probe
 * and not the table.  `gpu-contact [PROBE|all] [FOLDER of libraries] [small]`.  Rows are JSON lines;
 * tools/gpu-acceptance --step 0 makes a table of them.  Exit 5 when the plugin could not work as it does. */
#define _GNU_SOURCE
#include "tools/gpu/contact/contact.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEEN_BYTES = 512 * 4, BLOCKS_AN_SM = 8, THREADS = 256, LIMIT_S = 60, EXIT_FAILED = 5 };

static const struct probe {
    const char *name;
    void (*run)(struct contact *c);
} probes[] = {{"split", contact_split},   {"events", contact_events}, {"overlap", contact_overlap},
              {"graphs", contact_graphs}, {"memory", contact_memory}, {"blas", contact_blas},
              {"dnn", contact_dnn}};
enum { PROBES = sizeof probes / sizeof *probes };

void contact_row(struct contact *c, int ok, const char *what, const char *format, ...) {
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_t *row = json_pack("{s:s, s:s, s:s}", "probe", c->probe, "what", what, "result", text);
    if (ok >= 0) json_object_set_new(row, "ok", json_boolean(ok));
    char *line = json_dumps(row, JSON_COMPACT);
    printf("%s\n", line ? line : "{}");
    fflush(stdout);
    free(line);
    json_decref(row);
    c->failed += ok == 0;
}

const char *contact_name(const struct contact *c, unsigned result) {
    const char *name = NULL;
    if (!result) return "ok";
    return c->cu.error_name(result, &name) || !name ? "an unknown error" : name;
}

double contact_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* --- lets and kernels ----------------------------------------------------------------------------------- */
unsigned contact_let_open(struct contact *c, unsigned first, unsigned n, struct contact_let *out) {
    const struct mo_cuda_driver *cu = &c->cu;
    mo_cu_resource_desc desc = NULL;
    mo_cu_context top;
    *out = (struct contact_let){.sms = n ? n * c->size : c->all.sm.count};
    unsigned r = cu->resource_desc(&desc, n ? (void *)&c->groups[first] : (void *)&c->all, n ? n : 1);
    if (!r) r = cu->green_create(&out->green, desc, c->device, MO_CU_GREEN_DEFAULT_STREAM);
    if (!r) r = cu->green_context(&out->context, out->green);
    if (!r) r = cu->green_stream(&out->stream, out->green, MO_CU_STREAM_NON_BLOCKING, 0);
    if (r || (r = cu->context_push(out->context))) return r;
    r = cu->event_create(&out->begin, 0);
    if (!r) r = cu->event_create(&out->end, 0);
    const unsigned popped = cu->context_pop(&top);
    return r ? r : popped;
}

void contact_let_close(struct contact *c, struct contact_let *let) {
    const struct mo_cuda_driver *cu = &c->cu;
    if (let->begin) cu->event_destroy(let->begin);
    if (let->end) cu->event_destroy(let->end);
    if (let->stream) cu->stream_destroy(let->stream);
    if (let->green) cu->green_destroy(let->green);
}

unsigned contact_spin(struct contact *c, mo_cu_stream stream, unsigned sms, unsigned rounds) {
    void *arguments[] = {&c->seen};
    return c->cu.launch((mo_cu_function)(void *)c->kernel, sms * BLOCKS_AN_SM * rounds, 1, 1, THREADS, 1, 1,
                        0, stream, arguments, NULL);
}

unsigned contact_wait(struct contact *c, mo_cu_stream stream) {
    const double end = contact_ms() + 10000;
    unsigned r;
    while ((r = c->cu.stream_query(stream)) == MO_CU_NOT_READY)
        if (contact_ms() > end) return MO_CU_LAUNCH_TIMEOUT;
    return r;
}

unsigned contact_clear(struct contact *c, mo_cu_stream stream) {
    const unsigned r = c->cu.fill(c->seen, 0, SEEN_BYTES, stream);
    return r ? r : contact_wait(c, stream);
}

int contact_seen(struct contact *c, char *text, size_t n) {
    uint32_t *words;
    mo_cu_stream stream;
    int seen = 0, at = 0;
    text[0] = 0;
    if (c->cu.host_alloc((void **)&words, SEEN_BYTES, MO_CU_HOST_PORTABLE)) return -1;
    if (c->cu.stream_create(&stream, MO_CU_STREAM_NON_BLOCKING, 0) ||
        c->cu.copy_out(words, c->seen, SEEN_BYTES, stream) || contact_wait(c, stream))
        seen = -1;
    for (int i = 0, from = -1; seen >= 0 && i <= SEEN_BYTES / 4; i++) {
        const bool on = i < SEEN_BYTES / 4 && words[i];
        seen += on;
        if (on && from < 0) from = i;
        if (on || from < 0) continue;
        if (at >= 0 && (size_t)at < n)
            at += snprintf(text + at, n - (size_t)at, "%s%d-%d", at ? " " : "", from, i - 1);
        from = -1;
    }
    c->cu.stream_destroy(stream);
    c->cu.host_free(words);
    return seen;
}

/* --- one probe in a process of its own ------------------------------------------------------------------ */
static unsigned read_gpu(struct contact *c) {
    const struct mo_cuda_driver *cu = &c->cu;
    unsigned r = cu->init(0);
    if (!r) r = cu->device_get(&c->device, 0);
    if (!r) r = cu->primary_retain(&c->primary, c->device);
    if (!r) r = cu->context_push(c->primary);
    if (!r) r = cu->device_resource(c->device, (void *)&c->all, MO_CU_RESOURCE_SM);
    c->n = CONTACT_GROUPS;
    if (!r)
        r = cu->sm_split((void *)c->groups, &c->n, (const void *)&c->all, (void *)&c->rest, 0,
                         c->all.sm.least);
    if (!r) c->size = c->groups[0].sm.count;
    if (!r) r = cu->library_load(&c->library, mo_cuda_sm_probe, NULL, NULL, 0, NULL, NULL, 0);
    if (!r) r = cu->library_kernel(&c->kernel, c->library, "mo_probe");
    if (!r) r = cu->memory_alloc(&c->seen, SEEN_BYTES);
    return r;
}

static int run_probe(const struct probe *p, const char *folder, bool small) {
    struct contact c = {.env = mo_env_default(), .folder = folder, .small = small, .probe = p->name};
    moire_error err = {0};
    const double begin = contact_ms();
    if (mo_cuda_driver_open(&c.object, &c.env, folder, &c.cu, &err)) {
        contact_row(&c, 0, "driver", "%s", err.message);
        return 1;
    }
    const unsigned r = read_gpu(&c);
    if (r) {
        contact_row(&c, 0, "set up", "%s", contact_name(&c, r));
        return 1;
    }
    const double ready = contact_ms();
    p->run(&c);
    contact_row(&c, -1, "took", "%.0f ms to start, %.0f ms to probe", ready - begin, contact_ms() - ready);
    return c.failed != 0;
}

static bool ended_well(const struct probe *p, pid_t child) {
    struct contact c = {.probe = p->name};
    int status = 0;
    for (int i = 0; i < LIMIT_S * 100; i++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            if (WIFSIGNALED(status)) contact_row(&c, 0, "process", "ended by signal %d", WTERMSIG(status));
            return WIFEXITED(status) && !WEXITSTATUS(status);
        }
        usleep(10000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    contact_row(&c, 0, "process", "no end after %d s", LIMIT_S);
    return false;
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "", *folder = argc > 2 && *argv[2] ? argv[2] : NULL;
    const bool small = argc > 3;
    bool good = true;
    for (int i = 0; i < PROBES; i++) {
        if (*only && strcmp(only, "all") != 0 && strcmp(only, probes[i].name) != 0) continue;
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) return 1;
        if (!child) _exit(run_probe(&probes[i], folder, small));
        good = ended_well(&probes[i], child) && good;
    }
    return good ? 0 : EXIT_FAILED;
}
