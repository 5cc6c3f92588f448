#include "kernels/copy.h"

/* Compilers must not know it, or they use such an instruction themselves. */
static const volatile size_t most = GLI_COPY_SHORT;

void gli_copy_in_pieces(void *dst, const void *src, size_t bytes) {
  uint8_t *to = dst;
  const uint8_t *from = src;
  while (bytes > 0) {
    size_t piece = most;
    if (piece > bytes) piece = bytes;
    memcpy(to, from, piece);
    to += piece;
    from += piece;
    bytes -= piece;
  }
}
