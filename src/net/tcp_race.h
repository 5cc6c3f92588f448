/* Overlapping connection attempts to several addresses (happy eyeballs). */
#ifndef GLI_NET_TCP_RACE_H
#define GLI_NET_TCP_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define GLI_TCP_RACE_MAX 16

/* Connects to the addresses in turn, starting each attempt before the previous
 * one has failed (RFC 8305). Returns the index of the first that answers, after
 * closing all connections. Skips addresses with failed[i] set, and sets it for
 * those that fail. Returns -1 if all have failed or the time is up; *code then
 * is the cause of the last failure (errno, or ETIMEDOUT). */
int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 uint64_t deadline_ns, bool *failed, int *code);

#endif
