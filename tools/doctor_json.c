/* The report of `gloo doctor` as JSON, see docs/formats.md. */
#include <string.h>

#include "core/json.h"
#include "core/text.h"
#include "tools/doctor.h"

/* UINT64_MAX, "no limit" or "unknown", becomes null. */
static void put_amount(gli_json *out, const char *key, uint64_t value) {
  if (value == UINT64_MAX)
    gli_json_digits(out, key, "null");
  else
    gli_json_integer(out, key, value);
}

/* Lists the cores of a mask as numbers. */
static void put_cores(gli_json *out, const char *key, const uint8_t *mask) {
  gli_json_begin(out, key, '[');
  for (unsigned core = 0; core < 8 * GLI_CPU_MASK_BYTES; core++)
    if ((mask[core / 8] >> core % 8 & 1) != 0)
      gli_json_integer(out, NULL, core);
  gli_json_end(out, ']');
}

static void put_facts(gli_json *out, const gli_doctor_facts *f) {
  static const char *const auth[] = {"none", "on", "off", "host", "unused"};
  gli_json_text(out, "host", f->host);
  gli_json_text(out, "version", f->version);
  gli_json_integer(out, "cores", f->cores);
  gli_json_integer(out, "cores_online", f->online);
  gli_json_integer(out, "cores_quota", f->quota);
  put_cores(out, "affinity", f->bound.mask);
  put_amount(out, "open_files", f->files);
  put_amount(out, "open_files_hard", f->files_most);
  put_amount(out, "locked_bytes", f->locked);
  put_amount(out, "memory_left_bytes", f->memory_left);
  put_amount(out, "shm_left_bytes", f->shared_left);
  gli_json_text(out, "authentication",
                auth[f->auth <= GLI_DOCTOR_AUTH_UNUSED ? f->auth : 0]);
  gli_json_bool(out, "openssl", f->openssl != 0);
  gli_json_text(out, "interfaces", f->interfaces);
}

static void put_ranks(gli_json *out, const gli_doctor_ranks *all) {
  gli_json_begin(out, "ranks", '[');
  for (int i = 0; i < all->n; i++) {
    gli_json_begin(out, NULL, '{');
    gli_json_integer(out, "rank", (uint64_t)all->first + (uint64_t)i);
    if (all->context != NULL) {
      gli_json_integer(out, "host_number",
                       (uint64_t)gloo_context_host(all->context, i));
      gli_json_number(out, "clock_ahead_s", all->ahead[i]);
      gli_json_number(out, "clock_error_s", all->off[i]);
    }
    put_facts(out, &all->facts[i]);
    gli_json_end(out, '}');
  }
  gli_json_end(out, ']');
}

static void put_sharing(gli_json *out, const gli_doctor_ranks *all) {
  gli_json_begin(out, "sharing", '[');
  for (int first = 0, last; first < all->n; first = last + 1) {
    gli_sharing s;
    uint8_t mask[GLI_CPU_MASK_BYTES];
    last = gli_doctor_sharing(all, first, &s, mask);
    if (s.ranks <= s.cores) continue;
    gli_json_begin(out, NULL, '{');
    gli_json_integer(out, "first_rank", (uint64_t)all->first + (uint64_t)first);
    gli_json_integer(out, "last_rank", (uint64_t)all->first + (uint64_t)last);
    gli_json_integer(out, "n_ranks", s.ranks);
    gli_json_integer(out, "n_cores", s.cores);
    put_cores(out, "cores", mask);
    gli_json_end(out, '}');
  }
  gli_json_end(out, ']');
}

static void put_links(gli_json *out, const gli_doctor_ranks *all) {
  gli_json_begin(out, "links", '[');
  for (int a = 0; all->links != NULL && a < all->n; a++)
    for (int b = a + 1; b < all->n; b++) {
      const gli_doctor_link *l =
          &all->links[(size_t)a * (size_t)all->n + (size_t)b];
      if (l->us <= 0) continue;
      gli_json_begin(out, NULL, '{');
      gli_json_integer(out, "from", (uint64_t)a);
      gli_json_integer(out, "to", (uint64_t)b);
      gli_json_bool(out, "same_host", l->same_host != 0);
      gli_json_bool(out, "shared_memory", l->shared != 0);
      gli_json_number(out, "latency_us", (double)l->us);
      gli_json_number(out, "gb_per_s", (double)l->gb_per_s);
      gli_json_end(out, '}');
    }
  gli_json_end(out, ']');
}

static void put_findings(gli_json *out, const gli_doctor_ranks *all) {
  gli_json_begin(out, "findings", '[');
  for (size_t i = 0; i < all->n_problems; i++) {
    const gli_doctor_problem *p = &all->problems[i];
    gli_json_begin(out, NULL, '{');
    gli_json_text(out, "id", p->finding.id);
    gli_json_integer(out, "first_rank", (uint64_t)p->first);
    gli_json_integer(out, "last_rank", (uint64_t)p->last);
    gli_json_text(out, "text", p->finding.text);
    gli_json_end(out, '}');
  }
  gli_json_end(out, ']');
}

void gli_doctor_print_json(const gli_doctor_ranks *all) {
  gli_json out;
  const gli_launch *launch = all->launch;
  gli_json_open(&out, stdout);
  gli_json_integer(&out, "gloo_doctor", 1);
  gli_json_text(&out, "launcher", launch->launcher);
  gli_json_integer(&out, "rank", launch->rank);
  gli_json_integer(&out, "size", launch->size);
  gli_json_text(&out, "store", gli_store_url_shown(launch->store).text);
  gli_json_text(&out, "job", launch->job);
  gli_json_bool(&out, "met", all->context != NULL);
  if (all->context != NULL) {
    gli_json_number(&out, "met_ms", all->met_ms);
    gli_json_integer(&out, "hosts", (uint64_t)gloo_context_hosts(all->context));
  }
  put_ranks(&out, all);
  put_sharing(&out, all);
  put_links(&out, all);
  put_findings(&out, all);
  gli_json_close(&out);
}
