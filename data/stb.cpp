// Implementation of the stb headers. Of stb_image only PNG and JPEG are compiled: the other formats
// have known vulnerabilities.
#include <cstddef>
#include <cstdlib>

namespace {

// A damaged PNG may unpack to much more than its header declares. The largest image that
// image_file.cpp accepts needs one block of 512 MiB.
constexpr size_t kMaxBlock = size_t{1} << 30;

// Zero-initialized: stb reads tables that a JPEG may never define.
void* allocate(size_t bytes) { return bytes <= kMaxBlock ? std::calloc(1, bytes) : nullptr; }

void* reallocate(void* block, size_t bytes) {
  return bytes <= kMaxBlock ? std::realloc(block, bytes) : nullptr;
}

}  // namespace

#define STBI_MALLOC(bytes) allocate(bytes)
#define STBI_REALLOC(block, bytes) reallocate(block, bytes)
#define STBI_FREE(block) std::free(block)
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65535
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
