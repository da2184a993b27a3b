/* SPDX-License-Identifier: Apache-2.0
 * store_format.h - files of the variant store, for its reader (library) and its writer (moire compile).
 *
 *   <store>/v1/<cpu folder>/<hh>/<key>.json .so .c    one variant; <hh> = first two digits of the name
 *   <store>/v1/<cpu folder>/<hh>/<layer>.best.json    the best variant of one (signature, ISA level)
 *   <store>/v1/<cpu folder>/<hh>/<layer>.front.json   its implementations by pressure: moire tune
 *   <store>/v1/<cpu folder>/<hh>/<key>.model          a compiled model (runtime/plan/image.h)
 *   <store>/v1/<cpu folder>/<hh>/<stamp>.stamp.json   the compiled model of one version of one ONNX file
 *   <store>/v1/<cpu folder>/lock, work-<n>/           the writer's
 *   <store>/v1/models/<name>.json                     a model that was compiled here: known_models.h of
 *                                                     codegen/search
 *
 * <key> is the SHA-256 of everything the object depends on, <layer> that of signature and ISA level.  Every
 * JSON file is an envelope: {"sha256":"<digest of the body's bytes>",\n"body":<body>}\n, so that each byte
 * of it is covered.  Files appear by rename and are never rewritten, except that a newer index replaces an
 * older one as a whole, and so do fronts and stamps. */
#ifndef MO_STORE_FORMAT_H
#define MO_STORE_FORMAT_H
#include "runtime/base/sha256.h"
#include "variants/cpu.h"
#include "variants/store.h"

enum { MO_STORE_FORMAT = 1, MO_STORE_TEXT = 256, MO_STORE_KNOBS = 192, MO_STORE_PATH = 512 };
enum { MO_STORE_CORES = 2 }; /* what layers were searched for before their files said it */

/* Processors for which a store has kernels: names of their folders. */
enum { MO_STORE_CPUS = 32 };
struct mo_store_cpus {
    bool here; /* for this one */
    int n;
    char other[MO_STORE_CPUS][MO_CPU_FOLDER];
};
void mo_store_cpus(const struct mo_env *env, const char *path, struct mo_store_cpus *out);
/* What people read of such a name: "GenuineIntel-6-143-8"; "" when it is none. */
void mo_store_cpu_name(const char *folder, char out[MO_CPU_FOLDER]);

/* Description of one variant. */
struct mo_store_entry {
    int abi, generator;
    enum mo_isa isa;
    char signature[MO_STORE_TEXT];
    char family[32], knobs[MO_STORE_KNOBS]; /* knobs: "tile=14,unroll=4" */
    char compiler[MO_STORE_TEXT], flags[MO_STORE_TEXT];
    char object[MO_SHA256_HEX];
    int64_t object_bytes, source_bytes;
    double min_ns, generic_ns,
        gflops; /* profile: best time on one core, and the generic kernel's beside it */
};

/* The index of one layer. */
struct mo_store_index {
    int abi, generator;
    enum mo_isa isa;
    char signature[MO_STORE_TEXT];
    char best[MO_SHA256_HEX]; /* key; empty: nothing beat the generic kernel */
    char family[32], knobs[MO_STORE_KNOBS];
    int tried; /* candidates measured or discarded so far */
    int cores; /* that they were searched for */
    int64_t source_bytes, flops;
    double min_ns, generic_ns;
    char withdrawn[MO_STORE_TEXT]; /* why its best serves no more: what it did in a model; "": nothing */
};

/* What became of an implementation that `moire tune` sampled. */
enum mo_point_state {
    MO_POINT_VERSION,   /* kept: the runtime chooses among these */
    MO_POINT_COVERED,   /* other versions are within 90 % of it at every pressure */
    MO_POINT_SPARE,     /* on the front, and others were picked along it */
    MO_POINT_DOMINATED, /* another is no worse in parallelism, blocking and traffic */
    MO_POINT_LATE,      /* misses the layer's share of the target */
    MO_POINT_STATES
};
const char *mo_point_state_name(enum mo_point_state state);

enum { MO_FRONT_POINTS = 24 };
struct mo_store_point {
    char key[MO_SHA256_HEX]; /* of its entry; "": not stored */
    char family[32], knobs[MO_STORE_KNOBS];
    enum mo_point_state state;
    int64_t packing, units, parallelism_milli, block_bytes, l3_bytes; /* of its struct mo_variant */
    double ns[MO_STORE_LEVELS]; /* best time on one core by pressure; 0 = not measured */
    double part_ns;             /* of the core with most to do when the front's cores split it; 0 = not
                                   measured */
};

/* The sampled implementations of one layer, fastest without pressure first. */
struct mo_store_front {
    int abi, generator;
    enum mo_isa isa;
    char signature[MO_STORE_TEXT];
    double share_ns; /* the layer's share of its model's target */
    int cores;       /* of part_ns */
    int versions;    /* most that were asked for; 0: not known, fronts did not say it once */
    int n;
    struct mo_store_point point[MO_FRONT_POINTS];
};

/* Which compiled model belongs to an ONNX file, as it was when that was made. */
struct mo_store_stamp {
    int abi, generator;          /* that the model was made for */
    char model[MO_SHA256_HEX];   /* key */
    char outside[MO_SHA256_HEX]; /* digest of the state of the files beside it that hold its data; "": none */
    char path[MO_STORE_PATH];    /* of the ONNX file then, absolute; "": too long or not plain text */
    /* Its compiled kernels against built-in ones, in its own plan (tools/moire/verify/verify.h). */
    int verified, unverified; /* layers; the latter have shapes known at run time only, or could not be run */
    double error;             /* largest of a layer, relative to its range */
    char error_layer[96];     /* that layer */
};

/* Names. */
void mo_store_key(const struct mo_store_entry *entry, char hex[MO_SHA256_HEX]);
void mo_store_layer(const char *signature, enum mo_isa isa, char hex[MO_SHA256_HEX]);

/* Bytes of a JSON file to a struct; MOIRE_ESTORE with the reason when anything is off.  Hostile input. */
int mo_store_parse_entry(const char *bytes, size_t n, struct mo_store_entry *out, moire_error *err);
int mo_store_parse_index(const char *bytes, size_t n, struct mo_store_index *out, moire_error *err);

int mo_store_parse_front(const char *bytes, size_t n, struct mo_store_front *out, moire_error *err);
int mo_store_parse_stamp(const char *bytes, size_t n, struct mo_store_stamp *out, moire_error *err);

/* Refuses an object file that could do more than hold functions (elf_policy.c). */
int mo_elf_check(const void *bytes, size_t n, moire_error *err);
/* An object file whose bytes were checked. */
struct mo_store_object {
    const char *bytes;
    size_t n;
    char digest[MO_SHA256_HEX];  /* SHA-256 of the bytes */
    const char *label;           /* what profilers call its memory when it has no path; NULL = "variant" */
    const char *folder, *file;   /* where it lies, when it may be loaded from there; NULL: it may not */
    struct mo_trusted_open open; /* the file; fd -1: none */
};
/* Loads them as code: from the file that they were read from where it lasts, else from a sealed copy in
 * memory, or by the descriptor where that is forbidden. */
int mo_store_load(const struct mo_env *env, const struct mo_store_object *o, void **object,
                  struct mo_variant *out, moire_error *err);
#endif
