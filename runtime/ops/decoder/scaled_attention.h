/* SPDX-License-Identifier: Apache-2.0
 * scaled_attention.h - ONNX's Attention: softmax(softcap(scale Q K^T) + bias) V, what shapes and attributes
 * ask for.
 *
 *   Q [B,H,S,D], K [B,G,L,D], V [B,G,L,E], or of rank 3 [B,S,H*D], [B,L,G*D], [B,L,G*E]; H is a multiple of
 * G, and head h reads that of K and V with number h / (H/G).  Keys of the past [B,G,P,D] come before those of
 * K. Y [B,H,S,E] or [B,S,H*E]; present keys and values [B,G,P+L,..]; scores [B,H,S,P+L].
 *
 * Query i has position offset + i, key j has position j: offset is P, or what `valid` says less S.  A query
 * sees keys from its position - left to its position + right; `causal`: none behind itself; of `valid` keys
 * of a batch none at or behind that number; and what the mask lets it see, which ends before what it does not
 * cover.  A query that sees nothing has an output of zeros. */
#ifndef MO_SCALED_ATTENTION_H
#define MO_SCALED_ATTENTION_H
#include "runtime/ops/op.h"

enum mo_sdpa_input {
    MO_SDPA_Q,
    MO_SDPA_K,
    MO_SDPA_V,
    MO_SDPA_MASK,
    MO_SDPA_PAST_K,
    MO_SDPA_PAST_V,
    MO_SDPA_VALID,
    MO_SDPA_INPUTS
};
enum mo_sdpa_output { MO_SDPA_Y, MO_SDPA_PRESENT_K, MO_SDPA_PRESENT_V, MO_SDPA_SCORES, MO_SDPA_OUTPUTS };
/* What the fourth output holds. */
enum mo_sdpa_scores { MO_SDPA_RAW, MO_SDPA_CAPPED, MO_SDPA_BIASED, MO_SDPA_WEIGHTS };

struct mo_sdpa {
    int64_t batch, heads, groups, queries, keys, past, depth, width; /* keys: with those of the past */
    bool rows_first; /* rank 3: heads lie side by side in a row */
    double scale, softcap;
    int64_t low, high; /* key less query position: what is seen; INT64_MIN, INT64_MAX: no bound */
    enum mo_sdpa_scores mode;
};
/* in[MO_SDPA_INPUTS]: types and shapes, dtype MOIRE_NONE where absent.  NULL, or what does not fit. */
const char *mo_sdpa_of(const struct mo_node *node, const struct mo_value *in, struct mo_sdpa *out);
#endif
