/* SPDX-License-Identifier: Apache-2.0
 * checkpoint.h - all of an agent that one update leaves to the next, as part of a walk over a checkpoint
 * (learn_io.h): nets, moments, replay buffer, the stream of random numbers.  An agent that was created with
 * the same options (the seed does not matter) and read goes on to the same bytes as one that was never
 * interrupted. */
#ifndef MO_CHECKPOINT_H
#define MO_CHECKPOINT_H
#include "runtime/learn/learn_io.h"
#include "runtime/learn/sacd.h"
#include "runtime/learn/td3.h"

/* Refused: an agent of other options; which differs is named. */
void mo_checkpoint_sacd(struct mo_learn_io *io, struct mo_sacd *agent);
void mo_checkpoint_td3(struct mo_learn_io *io, struct mo_td3 *agent);
#endif
