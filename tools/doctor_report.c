/* Comparison of ranks, and the report of `gloo doctor` as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "tools/doctor.h"

/* Text such as "3.1 GiB", or "any". */
typedef struct amount {
  char text[24];
} amount;

static amount amount_of(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  amount a = {"any"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  if (bytes != UINT64_MAX)
    (void)snprintf(a.text, sizeof a.text, "%.3g %s", value, units[unit]);
  return a;
}

static amount number_of(uint64_t number) {
  amount a = {"any"};
  if (number != UINT64_MAX)
    (void)snprintf(a.text, sizeof a.text, "%llu", (unsigned long long)number);
  return a;
}

/* Text such as "rank 3", "ranks 3-7": a range of ranks with the same facts. */
typedef struct range {
  char text[40];
} range;

static range range_of(int first, int last) {
  range r;
  if (first == last) {
    (void)snprintf(r.text, sizeof r.text, "rank %d", first);
  } else {
    (void)snprintf(r.text, sizeof r.text, "ranks %d-%d", first, last);
  }
  return r;
}

/* ---- cores --------------------------------------------------------------- */

gli_doctor_cores gli_doctor_cores_of(const uint8_t *mask) {
  gli_doctor_cores list = {""};
  size_t used = 0;
  for (int core = 0, last; core < 8 * GLI_CPU_MASK_BYTES; core = last + 1) {
    last = core;
    if ((mask[core / 8] >> core % 8 & 1) == 0) continue;
    while (last + 1 < 8 * GLI_CPU_MASK_BYTES &&
           (mask[(last + 1) / 8] >> (last + 1) % 8 & 1) != 0)
      last++;
    if (used + 24 > sizeof list.text) {
      memcpy(list.text + used, ",...", 5);
      break;
    }
    used += (size_t)snprintf(list.text + used, sizeof list.text - used,
                             last > core ? "%s%d-%d" : "%s%d",
                             used > 0 ? "," : "", core, last);
  }
  return list;
}

static gli_sharing sharing_of(const gli_doctor_ranks *all, int rank) {
  gli_cores *cores = calloc((size_t)all->n, sizeof *cores);
  gli_sharing s = {.ranks = 1, .cores = 1};
  for (int i = 0; cores != NULL && i < all->n; i++)
    cores[i] = all->facts[i].bound;
  if (cores != NULL)
    s = gli_cores_shared(cores, (uint32_t)all->n, (uint32_t)rank);
  free(cores);
  return s;
}

int gli_doctor_sharing(const gli_doctor_ranks *all, int first,
                       gli_sharing *sharing, uint8_t mask[GLI_CPU_MASK_BYTES]) {
  const gli_cores *own = &all->facts[first].bound;
  int last = first;
  *sharing = sharing_of(all, first);
  memcpy(mask, own->mask, GLI_CPU_MASK_BYTES);
  while (last + 1 < all->n) {
    const gli_cores *next = &all->facts[last + 1].bound;
    bool meets = false;
    for (int i = 0; i < GLI_CPU_MASK_BYTES; i++)
      meets = meets || (mask[i] & next->mask[i]) != 0;
    if (next->system != own->system || !meets) break;
    for (int i = 0; i < GLI_CPU_MASK_BYTES; i++) mask[i] |= next->mask[i];
    last++;
  }
  return last;
}

/* Reports ranks that are bound to fewer cores than they are, on a host that has
 * a core for each of its ranks. Without a limit of CPU time only the binding
 * can be the reason. */
static void compare_cores(gli_doctor_ranks *all) {
  for (int first = 0, last; first < all->n; first = last + 1) {
    gli_sharing s;
    uint8_t mask[GLI_CPU_MASK_BYTES];
    const gli_doctor_facts *f = &all->facts[first];
    uint32_t here = 0;
    last = gli_doctor_sharing(all, first, &s, mask);
    for (int i = 0; i < all->n; i++)
      here += all->facts[i].bound.system == f->bound.system;
    if (s.ranks <= s.cores || here > f->online || f->quota > 0) continue;
    gli_doctor_add(all, first, last, "cores_shared",
                   "%u ranks are bound to %s (%s) of a host with %u; "
                   "bind each rank to its own core (mpirun --map-by core "
                   "--bind-to core, srun --cpu-bind=cores), or to none (mpirun "
                   "--bind-to none)",
                   (unsigned)s.ranks, gli_count(s.cores, "core").text,
                   gli_doctor_cores_of(mask).text, (unsigned)f->online);
  }
}

/* ---- comparing ----------------------------------------------------------- */

static const gli_doctor_link *link_of(const gli_doctor_ranks *all, int a,
                                      int b) {
  return &all->links[(size_t)a * (size_t)all->n + (size_t)b];
}

static int compare_floats(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Summary of the links within hosts, or between hosts. */
typedef struct summary {
  int n, from, to; /* the slowest pair */
  float us_least, us_most, least, middle, most;
} summary;

static summary summarise(const gli_doctor_ranks *all, bool one_host) {
  summary s = {.us_least = INFINITY};
  float *speeds = calloc((size_t)all->n * (size_t)all->n, sizeof *speeds);
  for (int a = 0; speeds != NULL && a < all->n; a++) {
    for (int b = a + 1; b < all->n; b++) {
      const gli_doctor_link *l = link_of(all, a, b);
      if (l->us <= 0 || (l->same_host != 0) != one_host) continue;
      if (l->us > s.us_most) s.us_most = l->us;
      if (l->us < s.us_least) s.us_least = l->us;
      bool slower = s.n == 0 || l->gb_per_s < s.least;
      speeds[s.n++] = l->gb_per_s;
      if (!slower) continue;
      s.least = l->gb_per_s;
      s.from = a;
      s.to = b;
    }
  }
  if (s.n > 0) {
    qsort(speeds, (size_t)s.n, sizeof *speeds, compare_floats);
    s.middle = speeds[s.n / 2];
    s.most = speeds[s.n - 1];
  }
  free(speeds);
  return s;
}

/* Reports a slow pair of hosts, and a pair of ranks of one host that could
 * share memory but does not: one of a kind. */
static void compare_links(gli_doctor_ranks *all) {
  summary s = summarise(all, false);
  if (s.n > 0 && s.least < s.middle / 4)
    gli_doctor_add(all, s.from, s.from, "slow_link",
                   "%.2g GB/s with rank %d, but half of the pairs reach %.2g; "
                   "check the network between these hosts",
                   (double)s.least, s.to, (double)s.middle);
  for (int a = 0; a < all->n; a++) {
    for (int b = a + 1; b < all->n; b++) {
      const gli_doctor_link *l = link_of(all, a, b);
      if (l->us <= 0 || l->shared || !l->same_host || l->why[0] == '\0')
        continue;
      gli_doctor_add(all, a, a, "no_shared_memory",
                     "no shared memory with rank %d: %.200s", b, l->why);
      return;
    }
  }
}

static void compare_clocks(gli_doctor_ranks *all) {
  for (int i = 0; i < all->n; i++) {
    if (fabs(all->ahead[i]) - all->off[i] < 1) continue;
    gli_doctor_add(all, i, i, "clock",
                   "its clock is %.3g s %s that of rank 0, so timestamps in "
                   "logs do not match: run a time service such as chrony on "
                   "its host",
                   fabs(all->ahead[i]),
                   all->ahead[i] > 0 ? "ahead of" : "behind");
  }
}

static void compare_versions(gli_doctor_ranks *all) {
  const char *first = all->facts[0].version;
  for (int i = 1; i < all->n; i++)
    if (strcmp(all->facts[i].version, first) != 0)
      gli_doctor_add(all, i, i, "version",
                     "version %s, and rank 0 has %s; install one version on "
                     "all hosts",
                     all->facts[i].version, first);
}

void gli_doctor_compare(gli_doctor_ranks *all) {
  compare_versions(all);
  compare_cores(all);
  compare_links(all);
  compare_clocks(all);
}

/* ---- printing ------------------------------------------------------------ */

static void print_launch(const gli_launch *launch) {
  if (launch->size == 1)
    printf("%-10s %s: one rank\n", "launcher", launch->launcher);
  else
    printf("%-10s %s: rank %u of %u, store %s%s%s\n", "launcher",
           launch->launcher, (unsigned)launch->rank, (unsigned)launch->size,
           gli_store_url_shown(launch->store).text,
           launch->job[0] != '\0' ? ", job " : "", gli_quote(launch->job).text);
}

static void print_facts(const char *who, const gli_doctor_facts *f) {
  static const char *const auth[] = {
      "ranks are not authenticated", "ranks authenticate each other",
      "off (GLOO_SECURITY=off)", "ranks of this host only", "one rank"};
  printf("%-10s %s: %s, version %s; %s%s\n", "host", who, f->host, f->version,
         gli_count(f->cores, "core").text,
         f->quota > 0 ? ", limited by its control group" : "");
  printf("%-10s %s: %s\n", "network", who, f->interfaces);
  printf("%-10s %s: %s%s\n", "security", who,
         auth[f->auth <= GLI_DOCTOR_AUTH_UNUSED ? f->auth : 0],
         f->openssl ? "" : "; no OpenSSL");
  printf(
      "%-10s %s: %s files (ulimit -Hn: %s), %s of locked memory; %s of "
      "memory and %s of /dev/shm are left\n",
      "limits", who, number_of(f->files).text, number_of(f->files_most).text,
      amount_of(f->locked).text, amount_of(f->memory_left).text,
      amount_of(f->shared_left).text);
}

static bool same_facts(const gli_doctor_facts *a, const gli_doctor_facts *b) {
  return strcmp(a->host, b->host) == 0 && strcmp(a->version, b->version) == 0 &&
         strcmp(a->interfaces, b->interfaces) == 0 && a->files == b->files &&
         a->locked == b->locked && a->cores == b->cores &&
         a->quota == b->quota && a->auth == b->auth && a->openssl == b->openssl;
}

static void print_ranks(const gli_doctor_ranks *all) {
  for (int first = 0, last; first < all->n; first = last + 1) {
    const gli_doctor_facts *f = &all->facts[first];
    last = first;
    while (last + 1 < all->n && same_facts(f, &all->facts[last + 1])) last++;
    print_facts(range_of(all->first + first, all->first + last).text, f);
  }
  for (int first = 0, last; first < all->n; first = last + 1) {
    gli_sharing s;
    uint8_t mask[GLI_CPU_MASK_BYTES];
    last = gli_doctor_sharing(all, first, &s, mask);
    if (s.ranks > s.cores)
      printf("%-10s %s: %u ranks share %s (%s) of %s\n", "sharing",
             range_of(all->first + first, all->first + last).text,
             (unsigned)s.ranks, gli_count(s.cores, "core").text,
             gli_doctor_cores_of(mask).text, all->facts[first].host);
  }
}

static void print_links(const gli_doctor_ranks *all, bool one_host) {
  summary s = summarise(all, one_host);
  if (s.n == 0) return;
  printf(
      "%-10s %s: %.2g to %.2g us one way; 1 MiB at %.3g to %.3g "
      "GB/s, median %.3g; the slowest is %d with %d\n",
      one_host ? "on a host" : "between", gli_count((uint64_t)s.n, "pair").text,
      (double)s.us_least, (double)s.us_most, (double)s.least, (double)s.most,
      (double)s.middle, s.from, s.to);
}

void gli_doctor_print(const gli_doctor_ranks *all) {
  print_launch(all->launch);
  if (all->context != NULL) {
    int hosts = gloo_context_hosts(all->context);
    printf("%-10s %s on %s met within %.3g ms\n", "meeting",
           gli_count((uint64_t)all->n, "rank").text,
           gli_count((uint64_t)hosts, "host").text, all->met_ms);
  }
  print_ranks(all);
  if (all->context != NULL) {
    double most = 0;
    print_links(all, true);
    print_links(all, false);
    for (int i = 0; i < all->n; i++)
      if (fabs(all->ahead[i]) > most) most = fabs(all->ahead[i]);
    printf("%-10s at most %.3g s from that of rank 0\n", "clocks", most);
  } else {
    char reach[GLI_DOCTOR_TEXT];
    gli_doctor_reach(all->launch, reach);
    printf("%-10s %s\n", "store", reach);
  }
  const char *key = "findings";
  for (size_t i = 0; i < all->n_problems; i++) {
    const gli_doctor_problem *p = &all->problems[i];
    printf("%-10s %s: %s\n", key, range_of(p->first, p->last).text,
           p->finding.text);
    key = "";
  }
  if (all->n_problems == 0) printf("%-10s nothing\n", key);
}
