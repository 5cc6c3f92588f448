/* Look-up by netlink, because if_nametoindex takes names of up to 15 characters
 * only. Kernels before 5.5 have no alternative names and answer with an
 * error. */
#include "net/alternative_name.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Headers of kernels before 5.5 lack the constant. */
#ifndef IFLA_ALT_IFNAME
#define IFLA_ALT_IFNAME 53
#endif

typedef struct name_question {
  struct nlmsghdr message;
  struct ifinfomsg link;
  struct rtattr attribute;
  char name[GLI_ALTERNATIVE_NAME_BYTES];
} name_question;

/* The beginning of an answer, which holds the index of the interface. */
typedef struct name_answer {
  struct nlmsghdr message;
  struct ifinfomsg link;
  uint8_t attributes[1024];
} name_answer;

static bool name_ask(int fd, const char *alternative) {
  name_question q = {
      .message = {.nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
      .attribute = {.rta_type = IFLA_ALT_IFNAME}};
  size_t bytes = strlen(alternative) + 1;
  if (bytes > sizeof q.name) return false;
  memcpy(q.name, alternative, bytes);
  q.attribute.rta_len = (unsigned short)RTA_LENGTH(bytes);
  q.message.nlmsg_len =
      (uint32_t)(NLMSG_LENGTH(sizeof q.link) + RTA_SPACE(bytes));
  const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  return sendto(fd, &q, q.message.nlmsg_len, 0,
                (const struct sockaddr *)&kernel, sizeof kernel) >= 0;
}

/* Returns the interface's index, or 0 if no interface has the name. The kernel
 * has queued its answer by the time sendto returns. */
static unsigned name_hear(int fd) {
  name_answer a;
  struct sockaddr_nl from = {.nl_pid = 1};
  socklen_t from_bytes = sizeof from;
  ssize_t got = recvfrom(fd, &a, sizeof a, MSG_DONTWAIT,
                         (struct sockaddr *)&from, &from_bytes);
  if (got < (ssize_t)NLMSG_LENGTH(sizeof a.link) || from.nl_pid != 0) return 0;
  if (a.message.nlmsg_type != RTM_NEWLINK || a.link.ifi_index <= 0) return 0;
  return (unsigned)a.link.ifi_index;
}

bool gli_alternative_name_find(const char *alternative,
                               char name[IF_NAMESIZE]) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return false;
  unsigned index = name_ask(fd, alternative) ? name_hear(fd) : 0;
  close(fd);
  return index != 0 && if_indextoname(index, name) != NULL;
}
