/* SPDX-License-Identifier: Apache-2.0
 * walk.h - what the convolution and GEMM families share: a layer cut into static tiles, and its C.
 *
 * Each of the two output axes is cut into tiles of nearly equal size; tiles whose filter taps see the same
 * part of the image form a class.  One function is emitted for each pair of a row class and a column class
 * (and for a shorter last set of output blocks): inside it every tap's pixels are known, so padding costs
 * neither a test nor a copy nor a flop.  A family fills the description; walk_emit.c writes the C. */
#ifndef MO_WALK_H
#define MO_WALK_H
#include "codegen/emit/emit.h"
#include "codegen/family/family.h"

enum { MO_AXIS_CLASSES = 8, MO_AXIS_RUNS = 24, MO_AXIS_TAPS = 96 };

/* One output axis cut into tiles. */
struct mo_axis {
    int64_t in, out;
    int64_t taps, stride, dilation, pad;
    int64_t tiles, size, extra; /* the first `extra` tiles have size + 1 positions, the others size */
    int n_classes;
    struct {
        int size;
        uint32_t valid[MO_AXIS_TAPS]; /* by tap: bit i: position i of the tile is inside the input */
    } cls[MO_AXIS_CLASSES];
    int n_runs; /* consecutive tiles of one class */
    struct {
        int64_t first;
        int cls;
    } run[MO_AXIS_RUNS];
};
/* Cuts into ceil(out / most) tiles; false when there are too many classes or runs. */
bool mo_axis_cut(struct mo_axis *axis, int64_t most);
/* Whether an even cut of n positions has tiles of that size at most, and one of it. */
bool mo_axis_balanced(int64_t n, int64_t most);
/* "INLINE i64 <name>_at(i64 tile)": the first position of a tile. */
void mo_axis_emit_at(FILE *out, const struct mo_axis *axis, const char *name);
int64_t mo_axis_start(const struct mo_axis *axis, int64_t tile);
/* Positions times taps that are inside the input, over the whole axis. */
int64_t mo_axis_work(const struct mo_axis *axis);

enum { MO_PREFETCH_SET = 1 };
enum mo_walk_kind { MO_WALK_BLOCKED, MO_WALK_FIRST, MO_WALK_DEPTHWISE, MO_WALK_GEMM, MO_WALK_GROUPED };

/* Knobs, common to the families. */
enum {
    MO_KNOB_BLOCKS,
    MO_KNOB_ROWS,
    MO_KNOB_COLS,
    MO_KNOB_UNROLL,
    MO_KNOB_PREFETCH,
    MO_KNOB_ORDER,
    MO_KNOB_UNIT,
    MO_KNOB_FOLD,
    MO_KNOB_PARTS,
    MO_KNOB_HALVES
};
#define MO_WALK_KNOBS                                                                                        \
    { "blocks", "rows", "cols", "unroll", "prefetch", "order", "unit", "fold", "parts", "halves" }

struct mo_walk {
    const struct mo_problem *p;
    const struct mo_emit_isa *isa;
    enum mo_walk_kind kind;
    struct mo_axis row, col;
    int64_t n, groups;
    bool small;        /* of 8-bit numbers: a step of a sum is four channels, where it is one of floats */
    bool fills;        /* what pads hold is multiplied, too */
    int64_t planes;    /* input blocks (or channels) of a group */
    int64_t channels;  /* input channels of a group: the last block may have fewer than 16 */
    int64_t ocb, outs; /* output blocks of a group; channels of the last group's output (GEMM: N) */
    int sources;       /* grouped: groups of which a vector of outputs has channels, at most */
    bool spreads;      /* grouped: lanes of one vector of inputs are spread over each group's */
    /* bytes */
    int64_t x_pixel, x_row, x_plane, x_group;
    int64_t y_pixel, y_row, y_block;
    int64_t w_tap, w_plane, w_block;
    enum mo_packing packing;
    /* the point */
    int blocks, unroll;
    int prefetch;   /* bytes ahead; MO_PREFETCH_SET: what the next set of output blocks will read here */
    char ahead[24]; /* the same as text */
    bool sets_outer;
    bool fold;          /* broadcasts are folded into the FMAs also where several blocks could share them */
    int64_t unit_tiles; /* row tiles of a unit */
    /* Input channels are taken in so many equal parts, sums rest in the output between them: the weights of a
     * part stay in the private cache while all tiles of a unit use them. */
    int64_t parts, x_part, w_part; /* their number; bytes from one to the next */
    /* derived */
    int64_t sets_group, sets, unit_sets;
    int64_t chunks, row_chunks; /* of an image's tiles; row_chunks of them one below the other */
    int64_t scratch_bytes;
    bool halves; /* on vectors of half the width */
    bool owns;   /* a tile begins by fetching the lines it will write */
    bool gated;  /* weights are multiplied by the image's gate first, in the scratch: set by set, or all */
    bool packed; /* GEMM: a tile's rows are first copied to the scratch */
    /* Pixels of bytes are made int16 (isa->pairs): those that a unit's row tiles meet, in the scratch.  Units
     * of one range that follow each other share them. */
    bool widens;
    int64_t from_row, from_plane, from_group; /* where they come from, in bytes: as x_row, x_plane, x_group */
    bool flat;                                /* one column: a tile's rows are consecutive pixels */
};
/* Describes a layer for a kind; false when the kind cannot take it. */
bool mo_walk_describe(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_walk *out);
/* Applies the knobs; false when illegal (registers, classes, code size). */
bool mo_walk_apply(struct mo_walk *w, const struct mo_point *point);
double mo_walk_cost(const struct mo_walk *w); /* nanoseconds on one core, for ranking */
int64_t mo_walk_parallelism_milli(const struct mo_walk *w);
int64_t mo_walk_block_bytes(const struct mo_walk *w);
int64_t mo_walk_l3_bytes(const struct mo_walk *w);
int64_t mo_walk_flops(const struct mo_walk *w); /* executed, padding skipped */
void mo_walk_emit_tiles(FILE *out, const struct mo_walk *w);
/* Grouped: the rest of the description, whether the registers suffice for a tile, and whether blocks with
 * vectors of several groups have others beside them. */
void mo_walk_describe_groups(struct mo_walk *w);
bool mo_walk_groups_fit(const struct mo_walk *w, int64_t pixels);
bool mo_walk_mixes_some(const struct mo_walk *w);
/* Each set of output blocks reads planes of its own. */
bool mo_walk_own_planes(const struct mo_walk *w);
/* The last set of output blocks needs functions of its own: it is shorter, or its last block is partial. */
bool mo_walk_last_differs(const struct mo_walk *w);
/* Channels of the last output block that FMAs must cover; 0 = all: padding costs FMAs only by halves of a
 * block. */
int mo_walk_used(const struct mo_walk *w);
/* Vectors of a tile of so many output blocks that take FMAs. */
int mo_walk_vectors(const struct mo_walk *w, int64_t blocks);
/* A residual is added behind the activation. */
bool mo_walk_adds_late(const struct mo_walk *w);
/* finish(): the activation of n stored vectors, `step` bytes apart.  A function of its own, since its
 * constants need the registers that a tile fills with accumulators. */
void mo_walk_emit_finish(FILE *out, const struct mo_walk *w);
/* Channels of a step; bytes of a block of 16 outputs. */
int mo_walk_step(const struct mo_walk *w);
int mo_walk_block(const struct mo_walk *w);
/* The set of instructions for the layer, perhaps on halves of vectors; NULL: there is none. */
const struct mo_emit_isa *mo_walk_isa(const struct mo_problem *p, bool halves);
/* Grouped, or depthwise and the weights of a filter row fit the registers beside the tile, and taps share
 * loaded inputs. */
bool mo_walk_shares_taps(const struct mo_walk *w);
/* Of layers of 8-bit numbers (walk_small.c): what a file begins with; the end of a tile, from its sums to
 * bytes or floats, `lanes` of the last block; and in a unit, for its set of output blocks, what a tile's end
 * is given, `a`. */
void mo_walk_small_head(FILE *out, const struct mo_walk *w, const char *name);
void mo_walk_small_finish(FILE *out, const struct mo_walk *w, const struct mo_mac *mac, int lanes);
void mo_walk_small_set(FILE *out, int indent);
/* Likewise for a set of blocks whose biases are at `b`: there will be what its sums start from. */
void mo_walk_small_start(FILE *out, const struct mo_walk *w, int indent);
/* z_: what pads hold, in a tile that multiplies it. */
void mo_walk_small_pads(FILE *out, const struct mo_walk *w);
/* widen_rows(): the pixels of a chunk of row tiles to the scratch. */
void mo_walk_emit_widen(FILE *out, const struct mo_walk *w);
int mo_walk_emit(const struct mo_walk *w, const char *name, FILE *out, moire_error *err);

/* Of any family: what emitted files begin with (types, ABI, `v act(v)`) and end with (the exported descriptor
 * of `static void run()`; abi and run of `figures` are not read). */
void mo_emit_head(FILE *out, const struct mo_problem *p, const struct mo_emit_isa *isa, const char *name);
void mo_emit_descriptor(FILE *out, const struct mo_variant *figures);

/* The same from a point of a family: describe, apply, emit. */
int mo_walk_emit_point(const struct mo_problem *p, enum mo_walk_kind kind, const char *name,
                       const struct mo_point *point, FILE *out, moire_error *err);

/* Tries every combination of the candidate tiles, sorts by cost, keeps the best `cap`. */
int mo_walk_points(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_point *points, int cap);

extern const struct mo_emit_family mo_emit_family_pointwise, mo_emit_family_direct, mo_emit_family_grouped,
    mo_emit_family_depthwise, mo_emit_family_first, mo_emit_family_gemm;
#endif
