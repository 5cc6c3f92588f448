#include "transport/request.h"

#include <stdlib.h>

#include "kernels/copy.h"

typedef struct copied_request {
  gli_send_request request; /* first: freed as this */
  uint8_t payload[];
} copied_request;

gli_send_request *gli_request_copy(const gli_send_request *request,
                                   uint64_t begun) {
  uint64_t length = request->header.length;
  if (length > SIZE_MAX - sizeof(copied_request)) return NULL;
  copied_request *copy = malloc(sizeof *copy + (size_t)length);
  if (copy == NULL) return NULL;
  copy->request = *request;
  copy->request.next = NULL;
  copy->request.payload = copy->payload;
  if (length > begun)
    gli_copy_bytes(copy->payload + begun,
                   (const uint8_t *)request->payload + begun,
                   (size_t)(length - begun));
  return &copy->request;
}

struct gli_request_copy_entry {
  gli_send_request *request;
  struct gli_request_copy_entry *next;
};

gli_send_request *gli_request_keep(gli_request_copies *copies,
                                   const gli_send_request *request,
                                   uint64_t begun) {
  struct gli_request_copy_entry *entry = malloc(sizeof *entry);
  if (entry == NULL) return NULL;
  entry->request = gli_request_copy(request, begun);
  if (entry->request == NULL) {
    free(entry);
    return NULL;
  }
  entry->next = *copies;
  *copies = entry;
  return entry->request;
}

void gli_request_copies_free(gli_request_copies *copies) {
  while (*copies != NULL) {
    struct gli_request_copy_entry *entry = *copies;
    *copies = entry->next;
    free(entry->request);
    free(entry);
  }
}

void gli_request_free_all(gli_request_queue *queue) {
  gli_send_request *request;
  while ((request = gli_request_pop(queue)) != NULL) free(request);
}
