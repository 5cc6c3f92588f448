#include "tools/run_hostlist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { HOST_LINE_MAX = 1024 };

void gli_run_hosts_free(gli_run_hosts *hosts) {
  free(hosts->list);
  memset(hosts, 0, sizeof *hosts);
}

int gli_run_hosts_of(const gli_run_hosts *hosts, int rank) {
  int low = 0, high = hosts->n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (hosts->list[middle].first <= rank)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* ---- one host ------------------------------------------------------------ */

static bool copy_word(const char *from, size_t bytes, const char *fine,
                      char *to, size_t room) {
  if (bytes == 0 || bytes >= room || from[0] == '-') return false;
  memcpy(to, from, bytes);
  to[bytes] = '\0';
  return strspn(to, fine) == bytes;
}

/* Reads ":N" at *at, and moves *at behind it. */
static bool host_number(const char **at, long most, long *number) {
  if (**at != ':') return false;
  size_t digits = strspn(*at + 1, DIGITS);
  if (digits == 0 || digits > 5) return false;
  *number = strtol(*at + 1, NULL, 10);
  *at += 1 + digits;
  return *number >= 1 && *number <= most;
}

/* Reads the numbers behind a name: slots, or a port and slots. */
static bool host_numbers(const char *at, gli_run_host *host) {
  long first, second;
  if (*at == '\0') return true;
  if (!host_number(&at, 65535, &first)) return false;
  bool two = *at != '\0';
  if (two && (!host_number(&at, GLI_RUN_RANKS_MAX, &second) || *at != '\0'))
    return false;
  bool is_port = two || host->user[0] != '\0';
  if (!is_port && first > GLI_RUN_RANKS_MAX) return false;
  if (is_port) host->port = (uint16_t)first;
  if (!is_port) host->slots = (int)first;
  if (two) host->slots = (int)second;
  return true;
}

/* Returns NULL, or the fault of the text, to end the sentence "'x' is not". */
static const char *host_parse(const char *text, gli_run_host *host) {
  static const char name[] = "a host name";
  memset(host, 0, sizeof *host);
  host->mentions = 1;
  const char *at = strchr(text, '@');
  if (at != NULL && !copy_word(text, (size_t)(at - text), LETTERS DIGITS "._-",
                               host->user, sizeof host->user))
    return "a host name with a user: user@host";
  const char *begin = at == NULL ? text : at + 1;
  if (*begin == '[') {
    size_t bytes = strcspn(++begin, "]");
    if (begin[bytes] != ']' || memchr(begin, ':', bytes) == NULL ||
        !copy_word(begin, bytes, LETTERS DIGITS ":.%_-", host->name,
                   sizeof host->name))
      return "an IPv6 address in brackets, such as [fd00::1]";
    begin += bytes + 1;
  } else {
    size_t bytes = strcspn(begin, ":");
    const char *last = strrchr(begin, ':');
    if (strstr(begin, "::") != NULL ||
        (last != NULL && last - strchr(begin, ':') > 6))
      return "a host name; write IPv6 addresses in brackets, such as "
             "[fd00::1]:4";
    if (!copy_word(begin, bytes, LETTERS DIGITS "._%-", host->name,
                   sizeof host->name))
      return name;
    begin += bytes;
  }
  if (host_numbers(begin, host)) return NULL;
  return "a host with slots (a:4), with a port (user@a:2222), or with both "
         "(a:2222:4)";
}

/* ---- the list ------------------------------------------------------------ */

/* Adds a host, or its slots to those of an equal one. Returns NULL, or the
 * reason. */
static const char *add_host(gli_run_hosts *hosts, const gli_run_host *host) {
  if (hosts->list == NULL)
    hosts->list = calloc(GLI_RUN_HOSTS_MAX, sizeof *hosts->list);
  if (hosts->list == NULL) return "out of memory";
  for (int i = 0; i < hosts->n; i++) {
    gli_run_host *h = &hosts->list[i];
    if (strcmp(h->name, host->name) != 0 || h->port != host->port ||
        strcmp(h->user, host->user) != 0)
      continue;
    if (h->slots > GLI_RUN_RANKS_MAX - host->slots)
      return "it has more than 16384 slots";
    /* An entry without slots counts as one if another has some. */
    if (h->slots > 0 && host->slots == 0) h->slots++;
    if (h->slots == 0 && host->slots > 0) h->slots = h->mentions;
    h->slots += host->slots;
    h->mentions++;
    return NULL;
  }
  if (hosts->n == GLI_RUN_HOSTS_MAX) return "there may be at most 4096 hosts";
  hosts->list[hosts->n++] = *host;
  return NULL;
}

bool gli_run_hosts_parse(const char *text, gli_run_hosts *hosts,
                         gloo_error *error) {
  for (const char *at = text; at != NULL;) {
    const char *comma = strchr(at, ',');
    size_t bytes = comma == NULL ? strlen(at) : (size_t)(comma - at);
    char word[HOST_LINE_MAX];
    gli_run_host host;
    snprintf(word, sizeof word, "%.*s", (int)(bytes < 1000 ? bytes : 1000), at);
    const char *fault = host_parse(word, &host);
    if (fault != NULL) {
      gli_fail(error, GLOO_ERR_INVALID, -1,
               "option --hosts: '%s' is not %s; separate hosts by commas, such "
               "as a,b",
               gli_quote(word).text, fault);
      return false;
    }
    fault = add_host(hosts, &host);
    if (fault != NULL) {
      gli_fail(error, GLOO_ERR_INVALID, -1, "option --hosts: host %s: %s",
               host.name, fault);
      return false;
    }
    at = comma == NULL ? NULL : comma + 1;
  }
  return true;
}

/* ---- a file -------------------------------------------------------------- */

/* Reads "slots=4" or "max_slots=4"; the latter replaces missing slots. */
static bool host_setting(const char *word, gli_run_host *host, int *most) {
  static const char *const names[] = {"slots=", "max_slots=", "max-slots="};
  for (int i = 0; i < 3; i++) {
    size_t length = strlen(names[i]);
    if (strncmp(word, names[i], length) != 0) continue;
    char *end;
    long number = strtol(word + length, &end, 10);
    if (end == word + length || *end != '\0' || number < 1 ||
        number > GLI_RUN_RANKS_MAX)
      return false;
    if (i == 0) host->slots = (int)number;
    if (i > 0) *most = (int)number;
    return true;
  }
  return false;
}

/* Adds the host of one line. Returns NULL, or the fault; *word is the part that
 * it is about. */
static const char *add_line(char *line, gli_run_hosts *hosts,
                            const char **word) {
  static const char blanks[] = " \t\r\n\v\f";
  line[strcspn(line, "#")] = '\0';
  char *rest = NULL, *name = strtok_r(line, blanks, &rest);
  if (name == NULL) return NULL;
  *word = name;
  gli_run_host host;
  int most = 0;
  const char *fault = host_parse(name, &host);
  if (fault != NULL) return fault;
  for (char *more; (more = strtok_r(NULL, blanks, &rest)) != NULL;) {
    *word = more;
    if (!host_setting(more, &host, &most))
      return "a setting of a host: slots=N or max_slots=N";
  }
  *word = NULL;
  if (host.slots == 0) host.slots = most;
  if (most > 0 && host.slots > most) host.slots = most;
  return add_host(hosts, &host);
}

bool gli_run_hosts_read(const char *path, gli_run_hosts *hosts,
                        gloo_error *error) {
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    gli_fail(error, GLOO_ERR_IO, -1, "option --hostfile: cannot open %s: %s",
             path, strerror(errno));
    return false;
  }
  char line[HOST_LINE_MAX];
  bool good = true;
  for (int number = 1; good && fgets(line, sizeof line, file) != NULL;
       number++) {
    const char *word = NULL, *fault = NULL;
    if (strlen(line) + 1 == sizeof line)
      fault = "the line has more than 1022 characters";
    else
      fault = add_line(line, hosts, &word);
    if (fault == NULL) continue;
    good = false;
    gli_fail(error, GLOO_ERR_INVALID, -1, "%s, line %d: %s%s%s%s", path, number,
             word != NULL ? "'" : "", word != NULL ? gli_quote(word).text : "",
             word != NULL ? "' is not " : "", fault);
  }
  if (good && ferror(file)) {
    good = false;
    gli_fail(error, GLOO_ERR_IO, -1, "option --hostfile: cannot read %s: %s",
             path, strerror(errno));
  }
  fclose(file);
  if (good && hosts->n == 0) {
    good = false;
    gli_fail(error, GLOO_ERR_INVALID, -1, "option --hostfile: %s has no hosts",
             path);
  }
  return good;
}

/* ---- placement ----------------------------------------------------------- */

static bool place_evenly(gli_run_hosts *hosts, const int *ranks,
                         gloo_error *error) {
  if (*ranks == 0) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option -n is required: the number of ranks; or give hosts slots "
             "(a:4,b:2), or --ppn");
    return false;
  }
  if (*ranks < hosts->n) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%s cannot run on %s: use fewer hosts, or more ranks",
             gli_count((uint64_t)*ranks, "rank").text,
             gli_count((uint64_t)hosts->n, "host").text);
    return false;
  }
  for (int i = 0, first = 0; i < hosts->n; i++) {
    hosts->list[i].first = first;
    hosts->list[i].ranks = *ranks / hosts->n + (i < *ranks % hosts->n);
    first += hosts->list[i].ranks;
  }
  return true;
}

static int slots_of(const gli_run_host *host, int ppn) {
  if (ppn > 0) return ppn;
  return host->slots > 0 ? host->slots : host->mentions;
}

bool gli_run_hosts_place(gli_run_hosts *hosts, int ppn, int *ranks,
                         gloo_error *error) {
  bool by_slots = ppn > 0;
  int64_t all = 0;
  for (int i = 0; i < hosts->n; i++) {
    const gli_run_host *h = &hosts->list[i];
    by_slots = by_slots || h->slots > 0 || h->mentions > 1;
    all += slots_of(h, ppn);
  }
  if (!by_slots) return place_evenly(hosts, ranks, error);
  if (*ranks > all || (*ranks == 0 && all > GLI_RUN_RANKS_MAX)) {
    bool short_of = *ranks > all;
    gli_fail(error, GLOO_ERR_INVALID, -1,
             short_of ? "%d ranks exceed the %lld slots of %s: give them more "
                        "slots (a:4), or --ppn"
                      : "%d ranks are the most, but there are %lld slots on "
                        "%s: set -n",
             short_of ? *ranks : GLI_RUN_RANKS_MAX, (long long)all,
             gli_count((uint64_t)hosts->n, "host").text);
    return false;
  }
  if (*ranks == 0) *ranks = (int)all;
  int first = 0, kept = 0;
  for (int i = 0; i < hosts->n && first < *ranks; i++) {
    gli_run_host *h = &hosts->list[i];
    int slots = slots_of(h, ppn), left = *ranks - first;
    h->first = first;
    h->ranks = slots < left ? slots : left;
    first += h->ranks;
    hosts->list[kept++] = *h;
  }
  hosts->n = kept;
  return true;
}
