/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_predict.h - what queries are predicted to take: for servers that join queries, or refuse them.  It is
 * not part of moire.h: whoever wants it includes it.
 */
#ifndef MOIRE_PREDICT_H
#define MOIRE_PREDICT_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a query of the tenant is predicted to take on `cores` cores (0: on the number on which it is fastest,
 * of those that moire_tenant_config.cores allows) when no other waits: by the profile of the load, corrected
 * by what its queries took lately.  Cheap: it can be asked for every query.  *ns: 0 where nothing is known,
 * as of tenants that run on GPUs only. Returns: MOIRE_OK; MOIRE_EINVAL: tenant or ns is NULL, or the runtime
 * has no such number of cores; MOIRE_EFORKED. */
MOIRE_API int moire_tenant_predict(moire_tenant *tenant, int cores, int64_t *ns, moire_error *err);

#ifdef __cplusplus
}
#endif
#endif
