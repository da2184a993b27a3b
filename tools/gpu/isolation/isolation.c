/* SPDX-License-Identifier: Apache-2.0
 * isolation.c - gpu-isolation: a fault in one tenant's work while others are served, and what becomes of
 * every query.  Run by tools/gpu-acceptance, once a case, for a GPU that faulted poisons its process.
 *
 * Two tenants with the same network are asked at a rate that leaves room for a third, a few queries of each
 * under way at most: `gpu` may run on the GPU alone, `both` on cores too.  A third of the way in the fault
 * strikes (fault_plugin.c), or the process that drives the GPU is killed ("lost").  Whatever happens, each
 * accepted query must be answered once, within the time a hang takes to be noticed; `both` must answer all of
 * its rightly; a fault of memory must cost nobody else anything; and with --process child the GPU must be
 * back, that is answer `gpu` rightly after it failed.  One JSON object says so; exit 5 where it was not so.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "models/build.h"
#include "moire.h"

enum {
    WINDOW = 4,
    RATE = 20 /* of a tenant, queries/s */,
    SIDE = 12,
    CHANNELS = 8,
    CLASSES = 10,
    WIDTH = 16,
    TIMEOUT_S = 45,
    EXIT_BROKEN = 5
};

static const struct scene {
    const char *name;
    bool tenant; /* the fault is a query of a tenant of its own */
    bool loses;  /* the GPU */
} scenes[] = {{"none", false, false}, {"illegal", true, true},  {"trap", true, true},
              {"hang", true, true},   {"memory", false, false}, {"lost", false, true}};

struct options {
    const struct scene *scene;
    const char *device, *models, *process, *cache;
    double seconds;
    bool child; /* the plugin has a process of its own */
};

/* A tenant and what it was answered. */
struct client {
    const char *name;
    moire_tenant *tenant;
    int accepted, refused;
    int64_t next; /* when it is asked again, from the begin */
    _Atomic int answered, ok, ok_after, ok_again, wrong, failed, code; /* again: after a failure */
    _Atomic int64_t slowest_ns, first_failed, back; /* back: the first right answer after it */
    _Atomic bool injected;                          /* the fault is under way */
    float want[CLASSES];
    char message[160]; /* of the last failure; read when all is answered */
};

static float pixels[SIDE * SIDE];

static void note(void *user, const moire_answer *a) {
    struct client *c = user;
    int64_t took = a->end_ns - a->arrival_ns;
    if (took > atomic_load(&c->slowest_ns)) atomic_store(&c->slowest_ns, took);
    if (a->code == MOIRE_OK && c->want[0] != 0) {
        const float *got = a->outputs[0].data;
        for (int i = 0; i < CLASSES; i++)
            if (!(fabsf(got[i] - c->want[i]) < 1e-3f)) {
                atomic_fetch_add(&c->wrong, 1);
                break;
            }
    }
    if (a->code == MOIRE_OK) {
        atomic_fetch_add(&c->ok, 1);
        if (atomic_load(&c->injected)) atomic_fetch_add(&c->ok_after, 1);
        if (atomic_load(&c->failed) && !atomic_fetch_add(&c->ok_again, 1)) atomic_store(&c->back, a->end_ns);
    } else {
        snprintf(c->message, sizeof c->message, "%.150s", a->message);
        atomic_store(&c->code, a->code);
        if (!atomic_fetch_add(&c->failed, 1)) atomic_store(&c->first_failed, a->end_ns);
    }
    atomic_fetch_add(&c->answered, 1); /* last: who waits for it may end */
}

static void ask(struct client *c, const moire_tensor *in) {
    moire_error err = {0};
    if (moire_submit(c->tenant, in, 1, 0, note, c, NULL, &err))
        c->refused++;
    else
        c->accepted++;
}

static void ask_image(struct client *c, int64_t t) {
    const moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, SIDE, SIDE}, .data = pixels, .bytes = sizeof pixels};
    if (t < c->next) return;
    c->next = t + 1000000000 / RATE;
    if (c->accepted - atomic_load(&c->answered) < WINDOW) ask(c, &in);
}

static void rest(void) {
    const struct timespec t = {.tv_nsec = 200000};
    nanosleep(&t, NULL);
}

/* --- the tenant that faults ----------------------------------------------------------------------------- */
static void build_fault(struct mo_build *b, const char *fault) {
    const int64_t dims[] = {-1, WIDTH};
    char input[64];
    snprintf(input, sizeof input, "moire_fault_%s", fault);
    mo_b_input(b, input, MOIRE_F32, dims, 2);
    mo_b_output(b, mo_b_op1(b, "Relu", input), "output", MOIRE_F32, dims, 2);
}

/* The network of the other two. */
static void build_served(struct mo_build *b) {
    struct mo_bv x = mo_b_image(b, "input", 1, SIDE, SIDE);
    x = mo_b_relu(b, mo_b_conv(b, x, (struct mo_conv_spec){.out = CHANNELS, .k = 3, .pad = 1, .bias = true}));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), CLASSES), "output", true);
}

/* fault NULL: the one that is served. */
static int write_model(const struct options *o, const char *fault, char *path, size_t n, moire_error *err) {
    struct mo_env env = mo_env_default();
    struct mo_build b;
    int code = mo_build_start(&env, "isolation", 1, &b, err);
    if (code) return code;
    snprintf(path, n, "%s/isolation-%s.onnx", o->models, fault ? fault : "served");
    if (fault)
        build_fault(&b, fault);
    else
        build_served(&b);
    code = mo_build_write(&b, path, err);
    mo_build_end(&b);
    return code;
}

static int load(moire_runtime *rt, const char *path, bool device_only, moire_tenant **out, moire_error *err) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.device_only = device_only;
    c.qos_ns = INT64_C(60000000000);
    c.rate = RATE;
    return moire_load(rt, path, &c, out, err);
}

static void inject_fault(struct client *c) {
    float magic[WIDTH] = {2e30f};
    const moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 2, .shape = {1, WIDTH}, .data = magic, .bytes = sizeof magic};
    ask(c, &in);
}

/* --- the play ------------------------------------------------------------------------------------------- */
/* All that was accepted is answered in time. */
static bool settle(const struct client c[3]) {
    const int rests = TIMEOUT_S * 5000;
    for (int i = 0; i < rests; i++) {
        if (c[0].accepted == c[0].answered && c[1].accepted == c[1].answered &&
            c[2].accepted == c[2].answered)
            return true;
        rest();
    }
    return false;
}

/* Is it a child of this process, of that name?  By /proc/PID/stat, "PID (NAME) STATE PARENT ...". */
static bool is_gpu_process(const char *pid) {
    static const char name[] = "(moire-gpu";
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    return open && close && strlen(close) > 4 && !strncmp(open, name, sizeof name - 1) &&
           strtol(close + 4, NULL, 10) == getpid();
}

/* The process that drives the GPU: our child, or -1. */
static pid_t gpu_process(void) {
    DIR *all = opendir("/proc");
    pid_t found = -1;
    for (struct dirent *e; all && found < 0 && (e = readdir(all));)
        if (is_gpu_process(e->d_name)) found = (pid_t)strtol(e->d_name, NULL, 10);
    if (all) closedir(all);
    return found;
}

/* What the load of a fault of memory said; MOIRE_EFAILED where the fault itself could not be made. */
static int make_fault(const struct options *o, moire_runtime *rt, struct client c[3], char *fault_path,
                      moire_error *err) {
    atomic_store(&c[0].injected, true);
    atomic_store(&c[1].injected, true);
    if (!strcmp(o->scene->name, "memory")) return load(rt, fault_path, true, &c[2].tenant, err);
    if (o->scene->tenant) {
        inject_fault(&c[2]);
        return MOIRE_OK;
    }
    pid_t pid = gpu_process();
    if (pid > 0 && !kill(pid, SIGKILL)) return MOIRE_OK;
    snprintf(err->message, sizeof err->message, "no process of the GPU that could be killed");
    return MOIRE_EFAILED;
}

static bool comes_back(const struct options *o) {
    return o->child && o->scene->loses;
}

static int play(const struct options *o, moire_runtime *rt, struct client c[3], char *fault_path,
                moire_error *load_error) {
    bool injected = !strcmp(o->scene->name, "none");
    int64_t begin = moire_now(rt), length = (int64_t)(o->seconds * 1e9);
    const int64_t most = length + INT64_C(1000000000) * TIMEOUT_S;
    int code = MOIRE_OK;
    for (int64_t t = 0; t < length || (t < most && comes_back(o) && !code && !atomic_load(&c[0].ok_again));
         t = moire_now(rt) - begin) {
        for (int i = 0; i < 2; i++)
            ask_image(&c[i], t);
        if (!injected && t > length / 3) {
            injected = true;
            code = make_fault(o, rt, c, fault_path, load_error);
        }
        rest();
    }
    return code;
}

static json_t *client_json(const struct client *c) {
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:i, s:s}", "tenant", c->name,
                     "accepted", c->accepted, "refused", c->refused, "answered", c->answered, "ok", c->ok,
                     "ok_after", c->ok_after, "ok_again", c->ok_again, "wrong", c->wrong, "failed", c->failed,
                     "slowest_ms", (double)c->slowest_ns * 1e-6, "back_ms",
                     (double)(c->back - c->first_failed) * 1e-6 * (c->back != 0), "code", c->code, "message",
                     c->message);
}

/* What must hold in every case. */
static bool held(const struct options *o, const struct client c[3], int load_code) {
    const struct scene *scene = o->scene;
    bool memory = !strcmp(scene->name, "memory");
    for (int i = 0; i < 3; i++)
        if (c[i].accepted != c[i].answered || c[i].wrong) return false;
    if (load_code != (memory ? MOIRE_ENOMEM : MOIRE_OK)) return false;
    if (c[1].failed || c[1].refused || !(c[1].ok_after || !strcmp(scene->name, "none"))) return false;
    if (!scene->loses && (c[0].failed || c[0].refused)) return false;
    if (comes_back(o) && !c[0].ok_again) return false;
    return !scene->tenant || (c[2].failed == 1 && c[2].code == MOIRE_EDEVICE);
}

static int report(const struct options *o, const struct client c[3], bool hung, int load_code,
                  const char *why) {
    bool good = !hung && held(o, c, load_code);
    json_t *list = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(list, client_json(&c[i]));
    json_t *d =
        json_pack("{s:s, s:s, s:b, s:b, s:i, s:s, s:o}", "case", o->scene->name, "process", o->process,
                  "held", (int)good, "hung", 0, "load_code", load_code, "load_message", why, "tenants", list);
    json_dumpf(d, stdout, JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(d);
    return good ? EXIT_SUCCESS : EXIT_BROKEN;
}

/* The answer of the cores to the image. */
static int reference(struct client *c, moire_error *err) {
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, SIDE, SIDE}, .data = pixels};
    moire_tensor out = {.data = c->want, .bytes = sizeof c->want};
    in.bytes = sizeof pixels;
    return moire_run(c->tenant, &in, 1, &out, 1, err);
}

static int prepare(const struct options *o, moire_runtime *rt, struct client c[3], char *path, size_t n,
                   moire_error *err) {
    int code = write_model(o, NULL, path, n, err);
    for (int i = 0; i < 2 && !code; i++)
        code = load(rt, path, !i, &c[i].tenant, err);
    for (int i = 0; i < SIDE * SIDE; i++)
        pixels[i] = (float)(i * 7 % 97) / 97;
    if (!code) code = reference(&c[1], err);
    memcpy(c[0].want, c[1].want, sizeof c[0].want);
    bool needs = o->scene->tenant || !strcmp(o->scene->name, "memory");
    if (!code && needs) code = write_model(o, o->scene->name, path, n, err);
    if (!code && o->scene->tenant) code = load(rt, path, true, &c[2].tenant, err);
    return code;
}

static const struct scene *scene_of(const char *name) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(scenes[i].name, name)) return &scenes[i];
    return NULL;
}

static bool parse(struct options *o, int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (!strcmp(argv[i], "--device"))
            o->device = value;
        else if (!strcmp(argv[i], "--process"))
            o->process = value;
        else if (!strcmp(argv[i], "--cache"))
            o->cache = value;
        else if (!strcmp(argv[i], "--case"))
            o->scene = scene_of(value);
        else if (!strcmp(argv[i], "--models"))
            o->models = value;
        else if (!strcmp(argv[i], "--seconds"))
            o->seconds = strtod(value, NULL);
        else
            return false;
    }
    o->child = strcmp(o->process, "in") != 0;
    return argc % 2 && o->device && o->models && o->scene && o->seconds > 0 &&
           (o->child || strcmp(o->scene->name, "lost") != 0);
}

int main(int argc, char **argv) {
    struct options o = {.scene = &scenes[0], .process = "in", .cache = "", .seconds = 3};
    if (!parse(&o, argc, argv)) {
        fprintf(
            stderr,
            "usage: gpu-isolation --device cuda:FILE --models DIR [--process in|child] [--cache DIR] [--case "
            "none|illegal|trap|hang|memory|lost (child only)] [--seconds S]\n");
        return 2;
    }
    static struct client c[3] = {{.name = "gpu"}, {.name = "both"}, {.name = "fault"}};
    char path[1200] = "";
    moire_error err = {0}, why = {0};
    moire_config config;
    moire_runtime *rt = NULL;
    alarm(3 * TIMEOUT_S); /* ends the process, should any call not return */
    moire_config_init(&config);
    config.device = o.device;
    config.device_process = o.process;
    config.device_cache = o.cache;
    config.device_batch = WINDOW;
    config.generic_only = 1;
    int code = moire_runtime_create(&config, &rt, &err);
    if (!code) code = prepare(&o, rt, c, path, sizeof path, &err);
    if (code) {
        fprintf(stderr, "gpu-isolation: %s\n", err.message);
        return 4;
    }
    int load_code = play(&o, rt, c, path, &why);
    bool hung = !settle(c);
    int result = report(&o, c, hung, load_code, load_code ? why.message : "");
    fflush(stdout);
    if (hung) _exit(result); /* it waits for its queries */
    moire_runtime_destroy(rt, 1);
    /* the driver's exit handlers wait for a kernel that never ends (seen on an H100) */
    if (o.scene->loses && !o.child) _exit(result);
    return result;
}
