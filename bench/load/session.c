/* SPDX-License-Identifier: Apache-2.0
 * session.c - set-up and lookup for one `moire bench` command; see session.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/trust/others.h"
#include "bench/load/session.h"
#include "bench/data/experiment.h"
#include "models/zoo.h"
#include "runtime/base/nearest.h"
#include "runtime/base/text.h"
#include "runtime/device/topology.h"

enum { WATCH_MS = 300 };

/* The last BY_CLASS of them have a pool of threads for each class. */
enum { BY_CLASS = 4 };
static const struct mo_bench_system peers[] = {
    {"ort-fcfs-all", "onnxruntime", "fcfs-all", "ONNX Runtime, FCFS, each query on all cores", NULL},
    {"ort-core-per-query", "onnxruntime", "core-per-query", "ONNX Runtime, FCFS, each query on one core",
     NULL},
    {"ort-all-at-once-1t", "onnxruntime", "all-at-once-1t", "ONNX Runtime, every query at once on one thread",
     NULL},
    {"ort-all-at-once-nt", "onnxruntime", "all-at-once-nt",
     "ONNX Runtime, every query at once on all threads", NULL},
    {"ort-all-at-once-nt-nospin", "onnxruntime", "all-at-once-nt-nospin", "the same without spinning workers",
     NULL},
    {"openvino-latency", "openvino", "latency", "OpenVINO, latency mode", NULL},
    {"openvino-throughput", "openvino", "throughput", "OpenVINO, throughput mode", NULL},
    {"ort-split", "onnxruntime", "split", "ONNX Runtime, half of the cores for each class", NULL},
    {"ort-split-all", "onnxruntime", "split-all", "ONNX Runtime, a pool of all cores for each class", NULL},
    {"ort-split-nice", "onnxruntime", "split-nice", "the same, best-effort threads at nice 19", NULL},
    {"ort-split-idle", "onnxruntime", "split-idle", "the same, best-effort threads under SCHED_IDLE", NULL},
};

const struct mo_bench_system *mo_bench_peers(int *n) {
    *n = (int)(sizeof peers / sizeof peers[0]);
    return peers;
}

bool mo_bench_by_class(const struct mo_bench_system *peer) {
    return peer >= peers + sizeof peers / sizeof *peers - BY_CLASS &&
           peer < peers + sizeof peers / sizeof *peers;
}

/* A bare container may have no /tmp. */
static bool make_folder(char *out, size_t n) {
    snprintf(out, n, "/tmp/moire-bench-XXXXXX");
    if (mkdtemp(out)) return true;
    snprintf(out, n, "moire-bench-XXXXXX");
    return mkdtemp(out) != NULL;
}

int mo_bench_session_open(const struct mo_env *env, int argc, char **argv, struct mo_bench_session *out,
                          moire_error *err) {
    memset(out, 0, sizeof *out);
    out->env = env;
    out->signal_fd = -1;
    const char *venv = getenv("VENV");
    out->venv = venv && *venv ? venv : ".venv";
    const int unknown = env->sys->own_program(env->sys->self, out->exe, sizeof out->exe);
    if (unknown) return mo_fail(err, MOIRE_EIO, "where this program lies: %s", strerror(-unknown));
    out->command = mo_bench_command(env, argc, argv);
    struct mo_topology *topology;
    int cores_code = mo_topology_create(env, NULL, 0, "", &topology, err);
    if (cores_code) return cores_code;
    out->cores = topology->n_cores;
    mo_topology_destroy(topology);
    if (!out->command || !make_folder(out->folder, sizeof out->folder)) {
        out->folder[0] = 0;
        int code = mo_fail(err, MOIRE_EIO, "no temporary folder can be made below /tmp, nor in this one");
        mo_bench_session_close(out);
        return code;
    }
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    out->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return MOIRE_OK;
}

void mo_bench_warn_busy(const struct mo_bench_session *session) {
    const struct mo_others others = mo_others_watch(WATCH_MS);
    if (mo_others_busy(&others))
        mo_bench_say(
            session,
            "bench: the machine is busy (other programs use %.2f of %d cores): times will be too long "
            "and noisy",
            mo_others_cores(&others), others.cpus);
}

static void remove_folder(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

void mo_bench_session_close(struct mo_bench_session *session) {
    if (session->folder[0]) remove_folder(session->folder);
    if (session->signal_fd >= 0) close(session->signal_fd);
    mo_free(session->env, (void *)session->command);
    memset(session, 0, sizeof *session);
}

void mo_bench_say(const struct mo_bench_session *session, const char *format, ...) {
    if (session->quiet) return;
    va_list args;
    va_start(args, format);
    fflush(stdout); /* both may go to one file: lines stay whole and in order */
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

bool mo_bench_interrupted(struct mo_bench_session *session) {
    struct signalfd_siginfo info;
    if (read(session->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) session->interrupted = true;
    return session->interrupted;
}

void mo_bench_temporary(struct mo_bench_session *session, const char *suffix, char *out, size_t n) {
    snprintf(out, n, "%s/%d%s", session->folder, session->files++, suffix);
}

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Looks for `model` below the peers' packages: a pattern "rapidocr_onnxruntime/models/x.onnx". */
static bool find_in_venv(const struct mo_bench_session *s, const char *model, char *out, size_t n) {
    if (strpbrk(model, "*?[") || strstr(model, "..")) return false;
    char pattern[1024];
    snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/%s", s->venv, model);
    glob_t found;
    bool ok = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0 && is_file(found.gl_pathv[0]);
    if (ok) snprintf(out, n, "%s", found.gl_pathv[0]);
    globfree(&found);
    return ok;
}

json_t *mo_bench_peer_versions(const struct mo_bench_session *session) {
    static const struct {
        const char *beside, *package; /* of the environment VENV + beside */
    } packages[] = {{"", "openvino"}, {"", "onnxruntime"},     {"", "ncnn"},
                    {"", "mnn"},      {"", "onednn_cpu_gomp"}, {"-tvm", "apache_tvm"}};
    static const char suffix[] = ".dist-info";
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        char pattern[1024];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s%s/lib/python3*/site-packages/%s-[0-9]*%s", session->venv,
                 packages[i].beside, packages[i].package, suffix);
        if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
            const char *name = strrchr(found.gl_pathv[0], '/') + 1;
            json_array_append_new(list, json_stringn(name, strlen(name) - (sizeof suffix - 1)));
        }
        globfree(&found);
    }
    return list;
}

static void zoo_shapes(const struct mo_zoo_model *zoo, struct mo_bench_tenant *t) {
    for (int i = 0; i < 3 && zoo->inputs[i].name; i++) {
        const struct mo_zoo_input *in = &zoo->inputs[i];
        bool given = false;
        for (int k = 0; k < t->n_shapes; k++)
            given |= !strcmp(t->shapes[k].input, in->name);
        if (given || t->n_shapes == MO_BENCH_MAX_INPUTS) continue;
        moire_shape *shape = &t->shapes[t->n_shapes++];
        *shape = (moire_shape){.input = in->name, .rank = in->rank};
        for (int k = 0; k < in->rank; k++)
            shape->shape[k] = in->shape[k];
    }
}

/* The folder of zoo files: as named, or the user's. */
static int models_folder(struct mo_bench_session *s, moire_error *err) {
    if (s->models) return MOIRE_OK;
    int code = mo_caches_folder(s->env->sys, "models", s->models_default, sizeof s->models_default, err);
    if (!code) s->models = s->models_default;
    return code;
}

/* What is meant as a path is a missing file, a bare word an unknown name. */
static int no_model(const struct mo_bench_session *s, const char *word, moire_error *err) {
    struct mo_nearest nearest = {.word = word};
    char hint[100], names[380];
    struct mo_text list = mo_text_in(names, sizeof names);
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    if (strpbrk(word, "./"))
        return mo_fail(
            err, MOIRE_EIO,
            "cannot read '%.200s': no such file, nor one of the packages in %.100s (`make peers` sets those "
            "up)",
            word, s->venv);
    for (int i = 0; i < n; i++) {
        mo_text_put(&list, "%s%s", i ? ", " : "", table[i].name);
        mo_nearest_offer(&nearest, table[i].name);
    }
    mo_nearest_text(&nearest, hint, sizeof hint);
    return mo_fail(err, MOIRE_EINVAL, "no model '%.60s'%s%s %s%s", word, hint,
                   *hint ? "  There are:" : "; there are:", names, list.cut ? "..." : "");
}

int mo_bench_resolve(struct mo_bench_session *s, struct mo_region *region, struct mo_bench_tenant *tenant,
                     moire_error *err) {
    char path[1024], full[4096];
    const struct mo_zoo_model *zoo = is_file(tenant->model) ? NULL : mo_zoo_find(tenant->model);
    if (zoo) {
        zoo_shapes(zoo, tenant);
        int code = models_folder(s, err);
        if (!code) code = mo_zoo_path(s->env, tenant->model, s->models, path, sizeof path, err);
        if (code) return code;
    } else if (is_file(tenant->model)) {
        snprintf(path, sizeof path, "%s", tenant->model);
    } else if (!find_in_venv(s, tenant->model, path, sizeof path)) {
        return no_model(s, tenant->model, err);
    }
    if (!realpath(path, full)) return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
    tenant->model = mo_region_string(region, full, strlen(full));
    return tenant->model ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}
