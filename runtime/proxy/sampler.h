/* SPDX-License-Identifier: Apache-2.0
 * sampler.h - a thread that samples a source every few milliseconds, for the scheduler to read without
 * waiting, and writes what it saw into an event ring.
 *
 * Life: create opens the source; start begins to sample; stop ends that; destroy frees.  Between stop and
 * destroy the last value may still be read.  Counters that go away end the sampling with one line in the log
 * and are gone for mo_sampler_read() from then on. */
#ifndef MO_SAMPLER_H
#define MO_SAMPLER_H
#include "runtime/base/cores.h"
#include "runtime/proxy/proxy.h"
#include "runtime/sched/events.h"

enum { MO_SAMPLER_PERIOD_NS = 5000000 };

struct mo_sampler;
/* `opened` is what source->open gave; it belongs to the sampler from here on, also after an error.  proxy
 * NULL: the counters are recorded only. */
int mo_sampler_create(const struct mo_env *env, const struct mo_source *source, void *opened,
                      const struct mo_proxy *proxy, struct mo_sampler **out, moire_error *err);
/* ring: of this thread alone, may be NULL.  MOIRE_EIO when the thread cannot be started. */
int mo_sampler_start(struct mo_sampler *sampler, struct mo_ring *ring, moire_error *err);
void mo_sampler_stop(struct mo_sampler *sampler);    /* NULL is fine, as is one that has not started */
void mo_sampler_destroy(struct mo_sampler *sampler); /* NULL is fine */

const struct mo_source *mo_sampler_source(const struct mo_sampler *sampler);
/* As mo_pressure_source.read; `self` is a sampler with a proxy. */
bool mo_sampler_read(void *self, int64_t now, const struct mo_cores *ending, double *pressure);
/* While held, nothing is written to the ring, so that it can be read.  NULL is fine. */
void mo_sampler_hold(struct mo_sampler *sampler);
void mo_sampler_unhold(struct mo_sampler *sampler);
#endif
