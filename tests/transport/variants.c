/* The transports under test. A new one names itself here and in meson.build. */
#include "battery.h"

extern const gli_transport_ops gli_transport_auto;
extern const gli_transport_ops gli_transport_ibv;
extern const gli_transport_ops gli_transport_inproc;
extern const gli_transport_ops gli_transport_shm;
extern const gli_transport_ops gli_transport_tcp;

const bat_variant bat_variants[] = {
    {.name = "inproc", .ops = &gli_transport_inproc, .streams = 1},
    {.name = "shm", .ops = &gli_transport_shm, .streams = 1},
    {.name = "auto",
     .ops = &gli_transport_auto,
     .host = "127.0.0.1",
     .streams = 1},
    {.name = "tcp",
     .ops = &gli_transport_tcp,
     .host = "127.0.0.1",
     .streams = 1},
    {.name = "tcp_2_streams",
     .ops = &gli_transport_tcp,
     .host = "127.0.0.1",
     .streams = 2},
    {.name = "tcp_4_streams",
     .ops = &gli_transport_tcp,
     .host = "127.0.0.1",
     .streams = 4},
    {.name = "tcp_ipv6",
     .ops = &gli_transport_tcp,
     .host = "::1",
     .streams = 1},
    {.name = "ibv",
     .ops = &gli_transport_ibv,
     .host = "127.0.0.1",
     .streams = 1},
    {.name = "ibv_checked",
     .ops = &gli_transport_ibv,
     .host = "127.0.0.1",
     .streams = 1,
     .checksum = true},
    {.name = "shm_checked",
     .ops = &gli_transport_shm,
     .streams = 1,
     .checksum = true},
    {.name = "auto_checked",
     .ops = &gli_transport_auto,
     .host = "127.0.0.1",
     .streams = 1,
     .checksum = true},
    {.name = "tcp_checked",
     .ops = &gli_transport_tcp,
     .host = "127.0.0.1",
     .streams = 1,
     .checksum = true},
    {.name = "tcp_2_streams_checked",
     .ops = &gli_transport_tcp,
     .host = "127.0.0.1",
     .streams = 2,
     .checksum = true},
};
const size_t bat_variant_count = sizeof bat_variants / sizeof bat_variants[0];
