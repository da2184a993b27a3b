/* SPDX-License-Identifier: Apache-2.0
 * verb_compile.c - `moire compile`: makes models fast by generating, compiling, checking and timing a kernel
 * for every layer, and keeping the best in the variant store. */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/compile/compile.h"
#include "models/zoo.h"
#include "runtime/base/cores.h"
#include "tools/moire/neighbour.h"
#include "tools/moire/paths.h"
#include "tools/moire/publish.h"
#include "tools/moire/verb.h"
#include "variants/store.h"

static const char usage[] =
    "usage: moire compile FILE.onnx|NAME ... [--shape INPUT=d,d,...] [--threads N] [--budget SECONDS]\n"
    "                     [--store DIR] [--cc CC] [--isa avx512|avx2|base] [--candidates N] [--exact]\n"
    "                     [--byte-price N] [--cores N] [--refine] [--verbose] [--json]\n\n"
    "Emits C for every convolution and matrix product, compiles it, checks it against a reference, times it\n"
    "and stores the fastest.  Layers that the store already has are skipped, so the command can be "
    "repeated,\n"
    "interrupted and resumed; layers that models share are compiled once.  Several models may be given.\n\n"
    "  --shape INPUT=d,d,...  binds an input whose shape is open\n"
    "  --threads N            compilers that run at a time; all allowed cores by default\n"
    "  --budget SECONDS       stop after about this time: first two candidates of every layer, largest "
    "first,\n"
    "                         then more where they promise most; without it 12 candidates of every layer\n"
    "  --store DIR            folder of compiled variants; $XDG_CACHE_HOME/moire/store or\n"
    "                         ~/.cache/moire/store by default\n"
    "  --cc CC                C compiler; the first of gcc, clang, cc by default\n"
    "  --isa LEVEL            avx512, avx2 or base; what the machine has by default\n"
    "  --candidates N         most candidates of a layer\n"
    "  --exact                for models run with --exact: no algorithm that rounds more than the sum of "
    "products\n"
    "  --byte-price N         us that a MB of packed weights is worth: the larger, the less memory; 36 by\n"
    "                         default, 0 for the fastest kernels of a model that has the machine to itself\n"
    "  --cores N              that a layer may get; all allowed ones by default.  Where the fastest kernel "
    "has\n"
    "                         fewer units than these, a second that feeds them is looked for and kept too\n"
    "  --refine               try more candidates of layers that the store already has\n"
    "  --versions N           also keep versions for several levels of pressure: see moire tune\n"
    "  --qos MS               with --versions: target of the model\n"
    "  --keep-covered         with --versions: see moire tune\n"
    "  --verbose              say why candidates are rejected\n"
    "  --json                 results as JSON on standard output\n\n"
    "Exit codes: 0 done (layers without a variant run by built-in kernels), 2 usage, 3 bad model,\n"
    "4 no compiler, store not writable or disk full, 130 interrupted (the store stays valid).\n\n"
    "Examples:\n"
    "  moire compile resnet50.onnx\n"
    "  moire compile detector.onnx --shape x=1,3,640,640 --budget 60\n"
    "  moire compile resnet50 mobilenet_v2 googlenet --threads 2 --json\n";

enum { MAX_FILES = 64, MAX_SHAPES = 64, PATH_CAP = 4096 };

struct options {
    struct mo_compile_options compile;
    const char *names[MAX_FILES], *store_given;
    char store[PATH_CAP], paths[MAX_FILES][PATH_CAP];
    moire_shape shapes[MAX_SHAPES];
    bool json, verbose;
    int published; /* compiled models in the store */
    int64_t published_bytes;
};

/* The one thing a signal handler may touch.  A second Ctrl-C ends at once: the store is valid at any time. */
static _Atomic int stop_requested;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    atomic_store(&stop_requested, 1);
}

static int usage_error(const char *text, const char *value) {
    fprintf(stderr, "moire compile: %s%s%s; `moire compile --help` explains\n", text, value ? " " : "",
            value ? value : "");
    return MO_EXIT_USAGE;
}

/* --- arguments --- */

/* "name=1,3,224,224"; cuts the text at '='. */
static bool parse_shape(char *text, moire_shape *out) {
    char *equals = text ? strrchr(text, '=') : NULL;
    if (!equals || equals == text) return false;
    *equals = 0;
    out->input = text;
    out->rank = 0;
    for (char *p = equals + 1, *end; out->rank < MOIRE_MAX_RANK; p = end + 1) {
        errno = 0;
        long long d = strtoll(p, &end, 10);
        if (end == p || errno || d < 1) return false;
        out->shape[out->rank++] = d;
        if (!*end) return true;
        if (*end != ',') return false;
    }
    return false;
}

static bool parse_number(const char *text, double least, double most, double *out) {
    char *end;
    if (!text || !*text) return false;
    *out = strtod(text, &end);
    return !*end && *out >= least && *out <= most;
}

static bool parse_isa(const char *text, enum mo_isa *out) {
    for (int i = 0; text && i < MO_ISA_COUNT; i++) {
        if (strcmp(text, mo_isa_name((enum mo_isa)i))) continue;
        *out = (enum mo_isa)i;
        return true;
    }
    return false;
}

/* One flag or file; an exit code, or -1 to go on. */
static int take_argument(struct mo_args *a, struct options *o) {
    struct mo_compile_options *c = &o->compile;
    double number;
    if (mo_args_flag(a, "--json", false)) {
        o->json = true;
    } else if (mo_args_flag(a, "--verbose", false)) {
        o->verbose = true;
    } else if (mo_args_flag(a, "--exact", false)) {
        c->exact = true;
    } else if (mo_args_flag(a, "--refine", false)) {
        c->search.refine = true;
    } else if (mo_args_flag(a, "--byte-price", true)) {
        if (!parse_number(a->value, 0, 1e6, &number)) return usage_error("--byte-price wants us a MB", NULL);
        c->search.byte_ns = number * 1e-3;
    } else if (mo_args_flag(a, "--store", true)) {
        if (!(o->store_given = a->value)) return usage_error("--store wants a folder", NULL);
    } else if (mo_args_flag(a, "--cc", true)) {
        if (!(c->search.cc = a->value)) return usage_error("--cc wants a compiler", NULL);
    } else if (mo_args_flag(a, "--isa", true)) {
        if (!parse_isa(a->value, &c->search.isa)) return usage_error("--isa is avx512, avx2 or base", NULL);
    } else if (mo_args_flag(a, "--threads", true)) {
        if (!parse_number(a->value, 1, 64, &number)) return usage_error("--threads wants 1 to 64", NULL);
        c->search.jobs = (int)number;
    } else if (mo_args_flag(a, "--candidates", true)) {
        if (!parse_number(a->value, 1, 20, &number)) return usage_error("--candidates wants 1 to 20", NULL);
        c->search.points = (int)number;
    } else if (mo_args_flag(a, "--cores", true)) {
        if (!parse_number(a->value, 1, MO_MAX_CORES, &number) || number != (int)number)
            return usage_error("--cores wants 1 to 1024", NULL);
        c->search.cores = (int)number;
    } else if (mo_args_flag(a, "--versions", true)) {
        if (!parse_number(a->value, 1, MO_STORE_VERSIONS, &number) || number != (int)number)
            return usage_error("--versions wants 1 to 5", NULL);
        c->search.versions = (int)number;
    } else if (mo_args_flag(a, "--keep-covered", false)) {
        c->search.keep_covered = true;
    } else if (mo_args_flag(a, "--qos", true)) {
        if (!parse_number(a->value, 0.001, 1e7, &number)) return usage_error("--qos wants ms", NULL);
        c->search.qos_ns = number * 1e6;
    } else if (mo_args_flag(a, "--budget", true)) {
        if (!parse_number(a->value, 0.001, 1e7, &c->search.budget_s))
            return usage_error("--budget wants seconds", NULL);
    } else if (mo_args_flag(a, "--shape", true)) {
        if (c->n_shapes == MAX_SHAPES || !parse_shape((char *)a->value, &o->shapes[c->n_shapes]))
            return usage_error("--shape wants INPUT=d,d,...", NULL);
        c->n_shapes++;
    } else if (a->argv[a->at][0] == '-') {
        return usage_error("unknown flag", a->argv[a->at]);
    } else {
        if (c->n_files == MAX_FILES) return usage_error("too many models", NULL);
        o->names[c->n_files++] = a->argv[a->at++];
    }
    return -1;
}

static int parse(int argc, char **argv, struct options *o) {
    struct mo_args args = {.argc = argc, .at = 1, .argv = argv};
    o->compile.search.isa = mo_isa_detect();
    o->compile.search.byte_ns = MO_BYTE_NS;
    while (args.at < args.argc) {
        int rc = take_argument(&args, o);
        if (rc >= 0) return rc;
    }
    if (!o->compile.n_files) return usage_error("which model?", NULL);
    if (!mo_isa_covers(mo_isa_detect(), o->compile.search.isa))
        return usage_error("this machine has no", "such ISA level");
    o->compile.shapes = o->shapes;
    return -1;
}

/* A name of the zoo that is no file becomes a file in the cache. */
static int resolve_files(const struct mo_env *env, struct options *o, moire_error *err) {
    char folder[PATH_CAP];
    for (int i = 0; i < o->compile.n_files; i++) {
        if (access(o->names[i], F_OK) == 0 || !mo_zoo_find(o->names[i])) continue;
        int rc = mo_path_default("models", folder, sizeof folder, err);
        if (!rc) rc = mo_zoo_path(env, o->names[i], folder, o->paths[i], PATH_CAP, err);
        if (rc) return rc;
        o->names[i] = o->paths[i];
    }
    o->compile.files = o->names;
    return mo_path_store(o->store_given, o->store, sizeof o->store, err);
}

/* --- progress and results --- */

struct progress {
    const struct mo_env *env;
    int64_t started;
    bool terminal;
    int shown; /* tenths already printed when it is no terminal */
};

static double gflops(const struct mo_layer_result *r) {
    double ns = r->generic_ns > 0 && r->generic_ns < r->min_ns ? r->generic_ns : r->min_ns;
    return ns > 0 ? (double)r->flops / ns : 0;
}

static void show_progress(void *ctx, int done, int total, const struct mo_layer_result *layer) {
    struct progress *p = ctx;
    double elapsed = (double)(mo_now(p->env) - p->started) * 1e-9;
    double left = done ? elapsed / done * (total - done) : 0;
    char bar[25];
    for (int i = 0; i < 24; i++)
        bar[i] = i < 24 * done / (total ? total : 1) ? '#' : '.';
    bar[24] = 0;
    if (p->terminal) {
        fprintf(stderr, "\r[%s] %d/%d  %.3s  %-52.52s %7.1f GF/s  ETA %3.0f s \033[K", bar, done, total,
                mo_layer_state_name(layer->state), layer->signature, gflops(layer), left);
        if (done == total) fputc('\n', stderr);
    } else if (10 * done / total > p->shown) {
        p->shown = 10 * done / total;
        fprintf(stderr, "compiling: %d of %d, ETA %.0f s\n", done, total, left);
    }
}

static void print_log(void *user, int level, const char *line) {
    const struct options *o = user;
    if (level == MOIRE_LOG_ERROR || (o->verbose && level <= MOIRE_LOG_WARN))
        fprintf(stderr, "moire compile: %s\n", line);
}

static void print_layer(const struct mo_layer_result *r) {
    char speedup[16] = "-", what[64] = "built-in";
    if (r->min_ns > 0 && r->generic_ns > 0)
        snprintf(speedup, sizeof speedup, "%.2f", r->generic_ns / r->min_ns);
    if (r->family[0] && r->state != MO_LAYER_GENERIC)
        snprintf(what, sizeof what, "%.20s %.40s", r->family, r->knobs);
    printf("%-8s %3d %9.1f %7.1f %7s %7.1f  %-34s %s\n", mo_layer_state_name(r->state), r->uses,
           r->min_ns * 1e-3, gflops(r), speedup, (double)r->source_bytes / 1024, what, r->signature);
    if (r->state == MO_LAYER_FAILED && r->trouble[0]) printf("         %s\n", r->trouble);
}

/* How many layers have how many versions, layers counted as often as the models use them. */
static void print_versions(const struct mo_search *search) {
    int layers[MO_STORE_VERSIONS + 1] = {0}, all = 0;
    for (int i = 0; i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        layers[r->versions] += r->uses;
        all += r->uses;
    }
    printf("versions a layer:");
    for (int i = 0; i <= MO_STORE_VERSIONS; i++)
        if (layers[i]) printf(" %d: %d layers (%.0f %%)", i, layers[i], 100.0 * layers[i] / all);
    printf("\n");
}

/* What many cores would take, by the parts of the layers that were measured in this run. */
static void print_cores(const struct mo_search *search, int cores) {
    int narrow = 0, known = 0;
    double ns = 0;
    for (int i = 0; i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        if (r->part_ns <= 0) continue;
        known++;
        narrow += r->units < cores;
        ns += r->part_ns * r->uses;
    }
    if (known)
        printf(
            "%d layers on %d cores: %.2f ms without barriers, each layer as long as its longest part alone; "
            "%d have fewer units\n",
            known, cores, ns * 1e-6, narrow);
}

static void print_table(const struct mo_search *search, const struct options *o, double seconds) {
    int n = mo_search_count(search);
    if (n)
        printf("%-8s %3s %9s %7s %7s %7s  %-34s %s\n", "state", "use", "us", "GF/s", "speedup", "KB of C",
               "variant", "layer");
    for (int i = 0; i < n; i++)
        print_layer(mo_search_result(search, i));
    struct mo_compile_totals t = mo_compile_totals(search);
    printf("\n%d distinct layers: %d compiled, %d reused, %d better built-in, %d failed, %d not reached; "
           "%d candidates rejected\n",
           t.layers, t.compiled, t.reused, t.generic, t.failed, t.pending, t.rejected);
    if (t.min_ms > 0)
        printf("all layers on one core: %.2f ms, %.1f GF/s (built-in kernels %.2f ms; geometric mean speedup "
               "%.2f)\n",
               t.min_ms, (double)t.flops / t.min_ms * 1e-6, t.generic_ms, t.speedup);
    if (o->compile.search.cores > 2) print_cores(search, o->compile.search.cores);
    if (o->compile.search.versions > 1) print_versions(search);
    if (o->published)
        printf("%d compiled model%s ready to be mapped, %.1f MB with packed weights\n", o->published,
               o->published > 1 ? "s" : "", (double)o->published_bytes * 1e-6);
    printf("%.1f s; store %s\n", seconds, o->store);
}

static json_t *layer_json(const struct mo_layer_result *r) {
    return json_pack("{ss ss si si ss ss sI sf sf sf sI si si ss}", "layer", r->signature, "state",
                     mo_layer_state_name(r->state), "versions", r->versions, "uses", r->uses, "family",
                     r->family, "knobs", r->knobs, "flops", (json_int_t)r->flops, "min_ns", r->min_ns,
                     "generic_ns", r->generic_ns, "gflops", gflops(r), "source_bytes",
                     (json_int_t)r->source_bytes, "tried", r->tried, "rejected", r->rejected, "trouble",
                     r->trouble);
}

static int print_json(const struct mo_search *search, const struct options *o, double seconds) {
    json_t *layers = json_array(), *files = json_array();
    for (int i = 0; i < o->compile.n_files; i++)
        json_array_append_new(files, json_string(o->names[i]));
    for (int i = 0; i < mo_search_count(search); i++)
        json_array_append_new(layers, layer_json(mo_search_result(search, i)));
    struct mo_compile_totals t = mo_compile_totals(search);
    json_t *all = json_pack("{s{so ss ss sf} so s{si si si si si si sf sf sf}}", "experiment", "files", files,
                            "store", o->store, "isa", mo_isa_name(o->compile.search.isa), "seconds", seconds,
                            "layers", layers, "totals", "layers", t.layers, "compiled", t.compiled, "reused",
                            t.reused, "generic", t.generic, "failed", t.failed, "pending", t.pending,
                            "min_ms", t.min_ms, "generic_ms", t.generic_ms, "speedup", t.speedup);
    int rc = all ? json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(all);
    putchar('\n');
    return rc ? MO_EXIT_SYSTEM : MO_EXIT_OK;
}

/* Compiled models of all files; what one misses is said and costs only start-up time. */
static void publish_all(const struct mo_env *env, struct options *o) {
    moire_shape shapes[MAX_SHAPES];
    for (int i = 0; i < o->compile.n_files && !atomic_load(&stop_requested); i++) {
        struct mo_compiled_request request = {
            .path = o->names[i], .shapes = shapes, .exact = o->compile.exact, .isa = o->compile.search.isa};
        struct mo_published done;
        moire_error err = {0};
        int rc = mo_compile_shapes(env, &o->compile, o->names[i], shapes, &request.n_shapes, &err);
        if (!rc) rc = mo_publish(env, o->store, &request, &done, &err);
        if (rc && rc != MOIRE_EUNSUPPORTED)
            fprintf(stderr, "moire compile: %s; it will load from ONNX\n", err.message);
        if (rc) continue;
        o->published++;
        o->published_bytes += done.bytes;
    }
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int run_with(const struct mo_env *outer, struct options *o) {
    struct mo_env env = *outer;
    env.log = print_log;
    env.log_user = o;
    moire_error err = {0};
    struct mo_search *search = NULL;
    struct progress progress = {.env = &env, .started = mo_now(&env), .terminal = isatty(STDERR_FILENO)};
    struct mo_search_options *s = &o->compile.search;
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (!s->jobs) s->jobs = allowed;
    if (!s->cores) s->cores = allowed;
    s->store = o->store;
    s->interrupted = &stop_requested;
    s->progress = show_progress;
    s->ctx = &progress;
    catch_interrupts();
    struct mo_neighbour neighbour = {.stress = NULL};
    int rc = resolve_files(&env, o, &err);
    if (!rc && s->versions > 1) rc = mo_neighbour_open(&env, &neighbour, &err);
    s->stress = neighbour.stress;
    if (!rc) rc = mo_compile_models(&env, &o->compile, &search, &err);
    mo_neighbour_close(&neighbour);
    if (!rc) publish_all(&env, o);
    double seconds = (double)(mo_now(&env) - progress.started) * 1e-9;
    if (rc && progress.terminal) fputc('\n', stderr);
    int code = rc ? mo_verb_fail("compile", &err) : MO_EXIT_OK;
    if (search && !rc) {
        if (o->json)
            code = print_json(search, o, seconds);
        else
            print_table(search, o, seconds);
    } else if (search && rc == MOIRE_EINTERRUPTED) {
        struct mo_compile_totals t = mo_compile_totals(search);
        fprintf(stderr, "moire compile: %d of %d layers are in the store; run the command again to go on\n",
                t.layers - t.pending, t.layers);
    }
    mo_search_destroy(search);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct options *o = calloc(1, sizeof *o);
    if (!o) {
        fprintf(stderr, "moire compile: out of memory\n");
        return MO_EXIT_SYSTEM;
    }
    int rc = parse(argc, argv, o);
    if (rc < 0) rc = run_with(env, o);
    free(o);
    return rc;
}

const struct mo_verb mo_verb_compile = {
    .name = "compile",
    .summary = "generate, compile and store a fast kernel for every layer of a model",
    .usage = usage,
    .run = run,
};
