// SPDX-License-Identifier: Apache-2.0
// `fettle-runner --reference` without the runner, for tests.
#include "verifier/reference_server.h"

int main() { return fettle::ServeReference(3); }
