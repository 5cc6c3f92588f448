"""What TLS costs over TCP on loopback, in turns with the same without, beside what the processor's
ciphers take at least.

usage: python3 bench/tls.py [--gloo build/tools/gloo] [--turns 5] [--time 0.5]

Two ranks, round trips (gloo bench sendrecv). The bound for long messages is the time of the plain
copy and that of `openssl speed` for the same bytes, one after the other: a lower one is possible, as
both ends work at once. Medians over the turns."""

import argparse
import json
import os
import re
import secrets
import statistics
import subprocess

SIZES = {4: "4", 1024: "1K", 16384: "16K", 262144: "256K", 4194304: "4M", 67108864: "64M"}


def measured(gloo, tls, seconds):
    """Returns microseconds per round trip, by bytes."""
    environment = {**os.environ, "GLOO_TLS": str(int(tls)), "GLOO_JOB_SECRET": secrets.token_hex(32)}
    said = subprocess.run([gloo, "run", "-n", "2", "--", gloo, "bench", "sendrecv", "--transport", "tcp",
                           "--time", str(seconds), "--sizes", ",".join(SIZES.values()), "--json"],
                          env=environment, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {line["bytes"]: line["p50_us"] for line in lines if "p50_us" in line}


def cipher_speed():
    """Returns bytes per second of AES-128-GCM in records of 16 KiB, in one direction."""
    said = subprocess.run(["openssl", "speed", "-evp", "aes-128-gcm", "-bytes", "16384", "-seconds", "1"],
                          check=True, capture_output=True, text=True).stdout
    return 1000 * float(re.search(r"([0-9.]+)k\s*$", said.strip())[1])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--gloo", default="build/tools/gloo")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--time", type=float, default=0.5)
    chosen = options.parse_args()
    plain, tls, speeds = [], [], []
    for _ in range(chosen.turns):
        plain.append(measured(chosen.gloo, False, chosen.time))
        speeds.append(cipher_speed())
        tls.append(measured(chosen.gloo, True, chosen.time))
    speed = statistics.median(speeds)
    print(f"AES-128-GCM: {speed / 1e9:.2f} GB/s (openssl speed, 16 KiB)\n")
    print("| bytes | plain, us | TLS, us | TLS / plain | bound, us | TLS / bound |\n|---|---|---|---|---|---|")
    for size in SIZES:
        before = statistics.median(turn[size] for turn in plain)
        after = statistics.median(turn[size] for turn in tls)
        ratio = statistics.median(b[size] / a[size] for a, b in zip(plain, tls))
        bound = before + 2e6 * size / speed
        print(f"| {size} | {before:.1f} | {after:.1f} | {ratio:.2f} | {bound:.1f} | {after / bound:.2f} |")


main()
