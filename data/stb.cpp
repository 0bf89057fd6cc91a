// The one place where stb's headers become code. Of stb_image only the two formats that Linea reads
// are compiled: the others have known holes.
#include <cstddef>
#include <cstdlib>

namespace {

// A damaged PNG may unpack to much more than its header says. The largest image that
// image_file.cpp lets through needs 512 MiB in one piece.
constexpr size_t kMaxPiece = size_t{1} << 30;

// Zeros: stb goes by tables that a JPEG may never give, and what was in that memory before must not
// be seen.
void* take(size_t bytes) { return bytes <= kMaxPiece ? std::calloc(1, bytes) : nullptr; }

void* take_again(void* piece, size_t bytes) {
  return bytes <= kMaxPiece ? std::realloc(piece, bytes) : nullptr;
}

}  // namespace

#define STBI_MALLOC(bytes) take(bytes)
#define STBI_REALLOC(piece, bytes) take_again(piece, bytes)
#define STBI_FREE(piece) std::free(piece)
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65535
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
