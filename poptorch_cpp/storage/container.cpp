#include "storage/container.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "support/error.hpp"
#include "support/moved_bytes.hpp"
#include "support/strings.hpp"

namespace poptorch::storage {
namespace {

using support::str;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "POPTORCH";
constexpr size_t kNameBytes = 16;
constexpr size_t kRowBytes = 64;
constexpr size_t kDigestBytes = sizeof(Digest);
constexpr size_t kFixedBytes = 16;  // magic, version, number of sections

struct Row {
  char name[kNameBytes];
  uint64_t offset, length;
  Digest digest;
  char zeros[16];
};
static_assert(sizeof(Row) == kRowBytes);

size_t header_bytes(size_t sections) { return kFixedBytes + sections * kRowBytes + kDigestBytes; }
size_t next_place(size_t place) { return (place + kAlignment - 1) / kAlignment * kAlignment; }

Digest digest_of_hash(const XXH128_hash_t& hash) { return {hash.low64, hash.high64}; }

template <typename T>
T number_at(std::string_view bytes, size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

bool all_zeros(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

}  // namespace

Digest digest_of(std::string_view bytes) {
  if (bytes.size() <= size_t{support::kMovedAtOnce}) {
    support::note_moved_bytes(static_cast<int64_t>(bytes.size()));
    return digest_of_hash(XXH3_128bits(bytes.data(), bytes.size()));
  }
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, size_t{support::kMovedAtOnce});
    XXH3_128bits_update(&hash, piece.data(), piece.size());
    support::note_moved_bytes(static_cast<int64_t>(piece.size()));
    bytes.remove_prefix(piece.size());
  }
  return digest_of_hash(XXH3_128bits_digest(&hash));
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const uint64_t half : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  }
  return text;
}

struct ContainerWriter::State {
  State(std::string path, size_t count) : file(std::move(path)), sections(count) {}

  support::WholeFile file;
  size_t sections;
  std::vector<Row> rows = {};
  XXH3_state_t hash = {};
};

ContainerWriter::ContainerWriter(std::string path, size_t sections)
    : state_(std::make_unique<State>(std::move(path), sections)) {
  const std::string header(header_bytes(sections), '\0');  // commit() writes the real one
  state_->file.write(header.data(), header.size());
}

ContainerWriter::~ContainerWriter() = default;

void ContainerWriter::end_section() {
  if (state_->rows.empty()) return;
  Row& row = state_->rows.back();
  row.length = static_cast<uint64_t>(state_->file.size()) - row.offset;
  row.digest = digest_of_hash(XXH3_128bits_digest(&state_->hash));
}

void ContainerWriter::begin(std::string_view name) {
  end_section();
  const auto size = static_cast<size_t>(state_->file.size());
  const std::string gap(next_place(size) - size, '\0');
  state_->file.write(gap.data(), gap.size());
  Row row = {};
  std::copy_n(name.begin(), std::min(name.size(), kNameBytes), row.name);
  row.offset = static_cast<uint64_t>(state_->file.size());
  state_->rows.push_back(row);
  XXH3_128bits_reset(&state_->hash);
}

void ContainerWriter::add(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, size_t{support::kMovedAtOnce});
    state_->file.write(from + done, piece);
    XXH3_128bits_update(&state_->hash, from + done, piece);
    support::note_moved_bytes(static_cast<int64_t>(piece));
    done += piece;
  }
}

void ContainerWriter::commit() {
  end_section();
  if (state_->rows.size() != state_->sections) {
    throw support::InternalError(str("[container] ", state_->rows.size(), " sections of ",
                                     state_->sections, " were written."));
  }
  std::string header(kMagic);
  const uint32_t numbers[] = {kFormatVersion, static_cast<uint32_t>(state_->sections)};
  header.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  for (const Row& row : state_->rows) {
    header.append(reinterpret_cast<const char*>(&row), sizeof row);
  }
  const Digest digest = digest_of(header);
  header.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  state_->file.write_at(0, header.data(), header.size());
  state_->file.commit();
}

Container::Container(const std::string& path)
    : name_(path), file_(std::make_unique<support::MappedFile>(path)), bytes_(file_->bytes()) {
  read_header();
}

Container::Container(std::string_view bytes, std::string name)
    : name_(std::move(name)), bytes_(bytes) {
  read_header();
}

void Container::refuse(const std::string& problem) const {
  throw support::UserError(str("[file] '", name_, "' ", problem));
}

void Container::read_header() {
  if (!bytes_.starts_with(kMagic.substr(0, bytes_.size())) || bytes_.empty()) {
    refuse("is not a PopTorch file. Give the name of one that save() or compileAndExport() wrote.");
  }
  const auto truncated = [&] { refuse("is damaged: it ends too early. Write it again."); };
  if (bytes_.size() < header_bytes(0)) truncated();
  const auto version = number_at<uint32_t>(bytes_, kMagic.size());
  const auto count = size_t{number_at<uint32_t>(bytes_, kMagic.size() + sizeof version)};
  const size_t size = count <= kMaxSections ? header_bytes(count) : header_bytes(0);
  if (bytes_.size() < size) truncated();
  const size_t covered = size - kDigestBytes;
  if (count > kMaxSections ||
      number_at<Digest>(bytes_, covered) != digest_of(bytes_.substr(0, covered))) {
    refuse("is damaged: its header has changed since it was written. Write it again.");
  }
  if (version != kFormatVersion) {
    refuse(str("has version ", version, " of the file format, but this PopTorch reads version ",
               kFormatVersion, ". Write it again with this one."));
  }
  size_t end = size;
  for (size_t i = 0; i < count; ++i) {
    const auto row = number_at<Row>(bytes_, kFixedBytes + i * kRowBytes);
    const std::string_view name(row.name, kNameBytes);
    const bool in_place = row.offset == next_place(end) && row.offset <= bytes_.size() &&
                          row.length <= bytes_.size() - row.offset;
    if (!in_place) truncated();
    if (!all_zeros(bytes_.substr(end, row.offset - end))) {
      refuse("is damaged: there are bytes between its sections. Write it again.");
    }
    sections_.push_back({std::string(name.substr(0, name.find('\0'))),
                         static_cast<size_t>(row.offset), static_cast<size_t>(row.length),
                         row.digest, false});
    end = row.offset + row.length;
  }
  if (end != bytes_.size()) refuse("is damaged: there are bytes after its end. Write it again.");
}

Container::Section& Container::find(std::string_view section) const {
  for (Section& known : sections_) {
    if (known.name == section) return known;
  }
  refuse(
      str("has no section '", section, "': it was written for another purpose. Write it again."));
}

bool Container::has(std::string_view section) const {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const Section& known) { return known.name == section; });
}

std::vector<std::string> Container::sections() const {
  std::vector<std::string> names;
  for (const Section& known : sections_) names.push_back(known.name);
  return names;
}

std::string_view Container::read(std::string_view section) const {
  const std::lock_guard lock(mutex_);
  Section& found = find(section);
  const std::string_view bytes = bytes_.substr(found.offset, found.size);
  if (!found.is_checked && digest_of(bytes) != found.digest) {
    refuse(str("is damaged: section '", section,
               "' has changed since it was written. Write it again."));
  }
  found.is_checked = true;
  return bytes;
}

std::shared_ptr<std::byte> Container::private_pages(std::string_view section) const {
  const Section& found = find(section);
  return file_->private_pages(found.offset, found.size);
}

}  // namespace poptorch::storage
