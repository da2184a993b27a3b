/* SPDX-License-Identifier: Apache-2.0
 * machine_pace.c - the machine's pace from blocks that ended; see machine_pace.h. */
#include "runtime/sched/machine_pace.h"

enum { FEWEST = 4 };
static const double QUOTA_NS = 250000;      /* of every core: 16 samples are 4 ms of a busy machine */
static const double LEAST = 0.25, MOST = 4; /* of one block */
static const double BAND = 0.1;             /* so near to 1 it counts as 1 */
static const int64_t MEMORY_NS = 100000000;

void mo_pace_init(struct mo_pace *p, int n_cores) {
    *p = (struct mo_pace){.quota = QUOTA_NS * n_cores, .value = 1};
}

/* A new sample, in place of the oldest when the ring is full. */
static void put(struct mo_pace *p, double sample) {
    int k = p->n;
    if (p->n == MO_PACE_SAMPLES) {
        for (k = 0; p->rising[k] < p->sample[p->at]; k++)
            ;
        for (; k + 1 < p->n; k++)
            p->rising[k] = p->rising[k + 1];
    } else {
        p->n++;
    }
    for (; k > 0 && p->rising[k - 1] > sample; k--)
        p->rising[k] = p->rising[k - 1];
    p->rising[k] = sample;
    p->sample[p->at] = sample;
    p->at = (p->at + 1) % MO_PACE_SAMPLES;
}

/* Mean of the middle half. */
static double middle_of(const struct mo_pace *p) {
    double sum = 0;
    int skip = p->n / 4;
    for (int i = skip; i < p->n - skip; i++)
        sum += p->rising[i];
    return sum / (p->n - 2 * skip);
}

static bool set(struct mo_pace *p, double value) {
    bool changed = value != p->value;
    p->value = value;
    return changed;
}

bool mo_pace_forget(struct mo_pace *p, int64_t now) {
    if (now - p->last <= MEMORY_NS) return false;
    p->n = p->at = 0;
    p->took = p->expected = 0;
    return set(p, 1);
}

bool mo_pace_note(struct mo_pace *p, int cores, double took, double expected, int64_t now) {
    bool changed = mo_pace_forget(p, now);
    double ratio = took / expected;
    ratio = ratio < LEAST ? LEAST : ratio < MOST ? ratio : MOST;
    p->last = now;
    p->took += ratio * expected * cores;
    p->expected += expected * cores;
    if (p->expected < p->quota) return changed;
    put(p, p->took / p->expected);
    p->took = p->expected = 0;
    if (p->n < FEWEST) return changed;
    double value = middle_of(p);
    return set(p, value > 1 + BAND || value < 1 / (1 + BAND) ? value : 1) || changed;
}
