/* SPDX-License-Identifier: Apache-2.0
 * process.c - gaps between arrivals; see process.h. */
#define _GNU_SOURCE
#include "bench/data/process.h"
#include "runtime/base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far the levels of the modulated process lie from the mean: rates 1.9 and 0.1. */
static const double SWING = 0.9;
static const double most_cv = 20;

void mo_rng_seed(struct mo_rng *rng, uint64_t seed, uint64_t stream) {
    uint64_t x = seed;
    uint64_t mixed = mo_splitmix(&x) ^ (stream * 0xd1342543de82ef95u + 1);
    for (int i = 0; i < 4; i++)
        rng->s[i] = mo_splitmix(&mixed);
}

static uint64_t rotate(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

uint64_t mo_rng_next(struct mo_rng *rng) {
    uint64_t *s = rng->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double mo_rng_uniform(struct mo_rng *rng) {
    return (double)(mo_rng_next(rng) >> 11) * 0x1p-53;
}

double mo_rng_exponential(struct mo_rng *rng) {
    return -log1p(-mo_rng_uniform(rng));
}

double mo_rng_normal(struct mo_rng *rng) { /* Box and Muller, one of the pair */
    double r = sqrt(2 * mo_rng_exponential(rng));
    return r * cos(2 * M_PI * mo_rng_uniform(rng));
}

/* Marsaglia and Tsang (2000); a shape below 1 through shape + 1 and a power of a uniform. */
double mo_rng_gamma(struct mo_rng *rng, double shape) {
    double boost = 1;
    if (shape < 1) {
        boost = pow(1 - mo_rng_uniform(rng), 1 / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = mo_rng_normal(rng), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log1p(-mo_rng_uniform(rng)) < 0.5 * x * x + d - d * v + d * log(v)) return boost * d * v;
    }
}

static const char *const names[] = {[MO_PROCESS_POISSON] = "poisson",
                                    [MO_PROCESS_UNIFORM] = "uniform",
                                    [MO_PROCESS_GAMMA] = "gamma",
                                    [MO_PROCESS_MMPP] = "mmpp"};

const char *mo_process_name(enum mo_process_kind kind) {
    return names[kind];
}

bool mo_process_parse(const char *text, struct mo_process *out) {
    for (int kind = MO_PROCESS_POISSON; kind <= MO_PROCESS_UNIFORM; kind++) {
        *out = (struct mo_process){.kind = (enum mo_process_kind)kind};
        if (!strcmp(text, names[kind])) return true;
    }
    for (int kind = MO_PROCESS_GAMMA; kind <= MO_PROCESS_MMPP; kind++) {
        size_t n = strlen(names[kind]);
        char *end;
        if (strncmp(text, names[kind], n) != 0 || text[n] != ':') continue;
        out->kind = (enum mo_process_kind)kind;
        out->cv = strtod(text + n + 1, &end);
        return end != text + n + 1 && !*end && out->cv > 1 && out->cv <= most_cv;
    }
    return false;
}

/* Levels 1 + SWING and 1 - SWING, each left at this rate: the limiting index of dispersion of a process with
 * levels a and b, each held half of the time and left at rate r, is 1 + (a - b)^2 / (4 r) at mean rate 1. */
static double leaving_rate(const struct mo_process *p) {
    return SWING * SWING / (p->cv * p->cv - 1);
}

void mo_process_start(struct mo_process_state *s, const struct mo_process *process, uint64_t seed,
                      uint64_t stream) {
    *s = (struct mo_process_state){.process = *process};
    mo_rng_seed(&s->rng, seed, stream);
    if (process->kind != MO_PROCESS_MMPP) return;
    s->high = mo_rng_uniform(&s->rng) < 0.5;
    s->left = mo_rng_exponential(&s->rng) / leaving_rate(process);
}

static double modulated_gap(struct mo_process_state *s) {
    double gap = 0;
    for (;;) {
        double level = s->high ? 1 + SWING : 1 - SWING, next = mo_rng_exponential(&s->rng) / level;
        if (next < s->left) {
            s->left -= next;
            return gap + next;
        }
        gap += s->left; /* the level changes first; what is left of the gap is drawn anew */
        s->high = !s->high;
        s->left = mo_rng_exponential(&s->rng) / leaving_rate(&s->process);
    }
}

/* Streams that begin at once would arrive together for ever: the first gap is a part of one. */
static double equal_gap(struct mo_process_state *s) {
    double gap = s->begun ? 1 : mo_rng_uniform(&s->rng);
    s->begun = true;
    return gap;
}

double mo_process_gap(struct mo_process_state *s) {
    double shape = 1 / (s->process.cv * s->process.cv);
    switch (s->process.kind) {
    case MO_PROCESS_UNIFORM:
        return equal_gap(s);
    case MO_PROCESS_GAMMA:
        return mo_rng_gamma(&s->rng, shape) / shape;
    case MO_PROCESS_MMPP:
        return modulated_gap(s);
    default:
        return mo_rng_exponential(&s->rng);
    }
}
