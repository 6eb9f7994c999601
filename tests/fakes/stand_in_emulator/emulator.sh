#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands in for an emulator's command line in tests: emulator.sh --config FILE -- PROGRAM ARGUMENTS. Like
# rocJITsu's local mode it reads its configuration and becomes the program.
[ "$1" = --config ] && [ "$3" = -- ] || exit 64
[ "$EMULATOR_MODE" = on ] || exit 65
grep -q '"gpu": "stand-in"' "$2" || exit 66
shift 3
exec "$@"
