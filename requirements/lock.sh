#!/usr/bin/env bash
# Write the lock files anew: the oldest Python and glibc that Assay runs on, so that they hold on
# newer ones. `lock.sh --upgrade` takes newer versions; without it the locked ones stay.
set -euo pipefail
cd "$(dirname "$0")/.."

lock() {
    uv pip compile --quiet --python-version 3.11.2 --python-platform x86_64-manylinux_2_28 \
        --generate-hashes --no-header --annotation-style line --index-strategy unsafe-best-match \
        "requirements/$1.in" --output-file "requirements/$1.txt" "${@:2}"
}

lock uv "$@"
lock redis --no-deps "$@"
lock encoder --no-deps "$@"
lock llama --no-deps "$@"
lock smollm2 --no-deps "$@"
lock web "$@"
lock worker "$@"
lock mcp "$@"
lock triton "$@"
# torch's own builds are many and come from several indexes: requirements/torch.txt says more.
lock ml requirements/torch.txt --no-emit-package torch "$@"
lock dev "$@"
