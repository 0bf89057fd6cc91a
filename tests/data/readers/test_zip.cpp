#include "data/readers/zip.h"

#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/zip_bytes.h"

namespace linea {
namespace {

std::string long_text() {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += fmt::format("{} ", i % 1009 * (i % 1013));
  return text;
}

class ZipTest : public DataTest {
 protected:
  std::string read(const std::string& bytes, int64_t max_bytes = kMaxFileBytes) const {
    return read_zip(put("a.zip", bytes), max_bytes);
  }
  void refused(const std::string& bytes, std::initializer_list<std::string> fragments) const {
    expect_error(ErrorKind::input, fragments, [&] { read(bytes); });
  }
};

TEST_F(ZipTest, ReadsStoredAndDeflatedFiles) {
  const std::string text = long_text();  // more than one piece of a megabyte
  ASSERT_GT(text.size(), size_t{1} << 20);
  EXPECT_EQ(read(zip_bytes({zip_entry("text8", text)})), text);
  EXPECT_EQ(read(zip_bytes({zip_entry("text8", text, false)})), text);
  EXPECT_EQ(read(zip_bytes({zip_entry("folder/", "", false), zip_entry("folder/a", "hello")},
                           "PK\5\6 a comment")),
            "hello");
  EXPECT_EQ(read(zip_bytes({zip_entry("empty", "")})), "");
  ZipEntry streamed = zip_entry("a", "hello");
  streamed.flags = 8;  // the sizes follow the bytes: those of the list count
  EXPECT_EQ(read(zip_bytes({streamed})), "hello");
}

TEST_F(ZipTest, RequiresExactlyOneFile) {
  refused(zip_bytes({}), {path("a.zip"), "holds 0 files"});
  refused(zip_bytes({zip_entry("folder/", "", false)}), {"holds 0 files"});
  refused(zip_bytes({zip_entry("a", "1"), zip_entry("b", "2")}),
          {"holds 2 files (a, b),", "unpack it"});
  refused(zip_bytes({zip_entry("a", "1"), zip_entry("b", "2"), zip_entry("c", "3")}),
          {"holds 3 files (a, b, ...),"});
}

TEST_F(ZipTest, LeavesOutWhatSystemsAdd) {
  const std::string notes(82, '\0');
  EXPECT_EQ(read(zip_bytes({zip_entry("a.txt", "hello"), zip_entry("__MACOSX/", "", false),
                            zip_entry("__MACOSX/._a.txt", notes)})),
            "hello");
  EXPECT_EQ(read(zip_bytes({zip_entry("f/.DS_Store", "x"), zip_entry("f/._a.txt", notes),
                            zip_entry("f/a.txt", "hello"), zip_entry("f/Thumbs.db", "x"),
                            zip_entry("desktop.ini", "x")})),
            "hello");
}

TEST_F(ZipTest, NamesDocumentsAndPrograms) {
  const auto archive = [](const std::vector<std::string>& names) {
    std::vector<ZipEntry> entries;
    for (const std::string& name : names) entries.push_back(zip_entry(name, "content"));
    return zip_bytes(entries);
  };
  refused(archive({"[Content_Types].xml", "word/document.xml"}),
          {path("a.zip"), "is a Word document (.docx); save it as plain text"});
  refused(archive({"[Content_Types].xml", "xl/workbook.xml"}), {"Excel", "CSV"});
  refused(archive({"[Content_Types].xml", "ppt/slides/slide1.xml"}), {"PowerPoint"});
  refused(archive({"mimetype", "META-INF/container.xml", "OEBPS/1.xhtml"}), {"EPUB", "pandoc"});
  refused(archive({"mimetype", "content.xml", "styles.xml"}), {"OpenDocument"});
  refused(archive({"META-INF/MANIFEST.MF", "A.class"}), {"a Java archive"});
  refused(archive({"model/data.pkl", "model/data/0"}), {"a PyTorch file"});
  refused(archive({"x.npy"}), {"NumPy arrays (.npz)"});
  refused(archive({"Index/Document.iwa"}), {"a Pages document"});
}

TEST_F(ZipTest, RefusesEveryTruncation) {
  const std::string whole = zip_bytes({zip_entry("name", "some text, some text")});
  for (size_t size = 0; size < whole.size(); ++size)
    refused(whole.substr(0, size), {"not a valid zip archive"});
  for (size_t first = 1; first < whole.size(); ++first)
    refused(whole.substr(first), {"not a valid zip archive"});
  refused(whole + "x", {"the end record"});
}

TEST_F(ZipTest, SurvivesAnyChangedByte) {
  const std::string text = "some text, some text, and more",
                    whole = zip_bytes({zip_entry("name", text)});
  int refusals = 0;
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      try {
        EXPECT_EQ(read(damaged), text) << i;  // dates and the like may change
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::input) << error.what();
        ++refusals;
      }
    }
  EXPECT_GT(refusals, static_cast<int>(whole.size()));
}

TEST_F(ZipTest, RefusesBombsBeforeTheyUnpack) {
  ZipEntry bomb = zip_entry("bomb", std::string(1 << 20, 'x'));
  bomb.unpacked_size = uint64_t{4000} << 20;
  refused(zip_bytes({bomb}), {"bomb unpacks to 4194304000 bytes", "1073741824"});
  bomb.unpacked_size = bomb.packed_size * 1200;
  refused(zip_bytes({bomb}), {"cannot unpack"});
  bomb.unpacked_size = 1000;  // holds more than it says
  refused(zip_bytes({bomb}), {"does not unpack from", "to 1000 bytes"});
  expect_error(ErrorKind::input, {"unpacks to 1048576 bytes", "at most 5000"},
               [&] { read(zip_bytes({zip_entry("bomb", std::string(1 << 20, 'x'))}), 5000); });
}

TEST_F(ZipTest, ComparesChecksumsAndRanges) {
  ZipEntry entry = zip_entry("a", "hello", false);
  entry.checksum ^= 1;
  refused(zip_bytes({entry}), {"a has checksum 3610a686", "3610a687"});
  entry = zip_entry("a", "hello", false);
  entry.packed_size = entry.unpacked_size = 10;
  refused(zip_bytes({entry}), {"a of 10 bytes reaches into the directory"});
  entry = zip_entry("a", "hello", false);
  entry.unpacked_size = 4;
  refused(zip_bytes({entry}), {"cannot unpack from 5 to 4"});
}

TEST_F(ZipTest, NamesUnsupportedFeatures) {
  ZipEntry entry = zip_entry("a", "hello");
  entry.flags = 1;
  refused(zip_bytes({entry}), {"a is encrypted"});
  entry = zip_entry("a", "hello");
  entry.method = 14;
  refused(zip_bytes({entry}), {"a is compressed by method 14"});
  std::string large = zip_bytes({zip_entry("a", "hello")});
  large.replace(large.size() - 6, 4, "\xFF\xFF\xFF\xFF");
  refused(large, {"zip64"});
}

TEST_F(ZipTest, TextsAreReadFromArchives) {
  TaskOptions options;
  options.name = "text";
  options.settings["length"] = 4;
  options.settings["data"] =
      put("text8.zip", zip_bytes({zip_entry("text8", "the quick brown fox")}));
  const auto packed = make_task(options);
  options.settings["data"] = put("text8", "the quick brown fox");
  const auto plain = make_task(options);
  EXPECT_EQ(packed->serialized_vocabulary(), plain->serialized_vocabulary());
  EXPECT_EQ(packed->train_rows(1, 6, 3).inputs, plain->train_rows(1, 6, 3).inputs);
  options.settings["data"] = put("no.zip", "the quick brown fox");
  expect_error(ErrorKind::input, {path("no.zip"), "not a valid zip archive"},
               [&] { make_task(options); });
}

}  // namespace
}  // namespace linea
