/* Which of several addresses answers first. */
#ifndef GLI_RENDEZVOUS_TCP_RACE_H
#define GLI_RENDEZVOUS_TCP_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Connect to all of them at once, but to those from `late` on only when those
 * before have failed, or a moment has passed; close all connections again, and
 * return the number of the first that was made. Addresses with failed[i] set
 * are left out, and it is set for those that fail. -1: all have failed, or the
 * time is up; then *code says why the last one did (errno, or ETIMEDOUT). */
int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 size_t late, uint64_t deadline_ns, bool *failed, int *code);

#endif
