/* SPDX-License-Identifier: Apache-2.0
 * emit_case.h - emits, compiles and loads one point of a kernel family, for the tests of the generator. */
#ifndef EMIT_CASE_H
#define EMIT_CASE_H
#include "codegen/family/family.h"

/* Set-up and tear-down of a group of such tests: the folder that they compile in. */
int emit_case_open(void **state);
int emit_case_close(void **state);
bool emit_case_have(const struct mo_env *env, const char *compiler);
/* Compiles with all warnings as errors; the object stays loaded.  NULL and the reason when anything fails. */
const struct mo_variant *emit_case_build(const struct mo_env *env, const char *compiler,
                                         const struct mo_emit_family *family, const struct mo_problem *p,
                                         const struct mo_point *point, char *why, size_t n);
#endif
