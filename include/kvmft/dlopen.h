/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dlopen.h: a note in the program for the tools of distributions, which see what it is linked with,
 * not what it loads (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/).
 */
#pragma once

#include <stdint.h>

#define DLOPEN_NOTE_TYPE 0x407c0c0a

/* DLOPEN_NOTE(feature, "what it is for", "libx.so.1"): all are recommended, none is required. */
#define DLOPEN_NOTE(feature, description, soname)                                        \
	DLOPEN_NOTE_JSON(dlopen_note_##feature,                                          \
			 "[{\"feature\":\"" #feature "\",\"description\":\"" description \
			 "\",\"priority\":\"recommended\",\"soname\":[\"" soname "\"]}]")

#define DLOPEN_NOTE_JSON(variable, json)                                          \
	static const struct {                                                     \
		uint32_t owner_size, json_size, type;                             \
		char owner[4];                                                    \
		char text[(sizeof(json) + 3) & ~3u];                              \
	} variable __attribute__((used, aligned(4), section(".note.dlopen"))) = { \
		4, sizeof(json), DLOPEN_NOTE_TYPE, "FDO", json                    \
	}
