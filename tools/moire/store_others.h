/* SPDX-License-Identifier: Apache-2.0
 * store_others.h - `moire store`: what lies there for other processors, and `moire store clean --other-cpus`.
 */
#ifndef MO_STORE_OTHERS_H
#define MO_STORE_OTHERS_H
#include "tools/moire/verb.h"

/* "3 days", "5 hours", "less than a minute": how long ago, in seconds. */
void mo_age_text(double seconds, char *out, size_t n);
/* The table for other processors, when there are any, and how many models the store knows. */
void mo_store_others_print(const struct mo_env *env, const char *store);
/* [{cpu, folder, files, kernels, models, bytes, modified}]; modified: seconds since 1970. */
json_t *mo_store_others_json(const struct mo_env *env, const char *store);
/* [{file, there, tuned}] */
json_t *mo_store_models_json(const struct mo_env *env, const char *store);
/* Takes them out, or with --dry-run says what would go; an exit code. */
int mo_store_others_clean(const struct mo_env *env, const char *store, const struct mo_options *options);
#endif
