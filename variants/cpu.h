/* SPDX-License-Identifier: Apache-2.0
 * cpu.h - which processor this is, as far as machine code and its measured speed depend on it. */
#ifndef MO_CPU_H
#define MO_CPU_H
#include <stdbool.h>
#include <stddef.h>

enum { MO_CPU_TEXT = 512, MO_CPU_FOLDER = 80 };

/* Canonical text: architecture, vendor, family, model, stepping, ISA features, state the OS enabled (XCR0).
 */
void mo_cpu_fingerprint(char out[MO_CPU_TEXT]);
/* Folder name of a fingerprint: readable head and the first 12 digits of its SHA-256. */
void mo_cpu_folder(char out[MO_CPU_FOLDER]);
#endif
