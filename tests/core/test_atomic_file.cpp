// Files that are there as a whole or not at all.
#include "core/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFile, IsThereAfterCommitAndNotBefore) {
  const Folder folder;
  {
    AtomicFile file(folder / "a.txt");
    file.write("one ");
    file.write(std::string(1 << 20, 'x'));
    EXPECT_FALSE(fs::exists(folder / "a.txt"));
    file.commit();
    EXPECT_TRUE(fs::exists(folder / "a.txt"));
    EXPECT_THROW(file.write("more"), BadArgument);
  }
  EXPECT_EQ(slurp(folder / "a.txt"), "one " + std::string(1 << 20, 'x'));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  const Folder folder;
  write_file(folder / "a.txt", "old");
  { AtomicFile(folder / "a.txt").write("new"); }
  EXPECT_EQ(slurp(folder / "a.txt"), "old");
  EXPECT_EQ(folder.files(), 1u);
  write_file(folder / "a.txt", "new");
  EXPECT_EQ(slurp(folder / "a.txt"), "new");
}

TEST(AtomicFile, AKilledProcessLeavesNothing) {
  const Folder folder;
  const int nameless = open((folder / "").c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (nameless < 0) GTEST_SKIP() << "the file system of temporary files knows no files without a name";
  close(nameless);
  write_file(folder / "a.txt", "old");
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder / "a.txt");
    file.write(std::string(1 << 20, 'x'));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(slurp(folder / "a.txt"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const Folder folder;
  write_file(folder / "a.txt", "old");
  chmod((folder / "a.txt").c_str(), 0640);
  fs::create_symlink("a.txt", folder / "link.txt");
  write_file(folder / "link.txt", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(slurp(folder / "a.txt"), "new");
  struct stat status {};
  ASSERT_EQ(stat((folder / "a.txt").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, ErrorsGiveTheSystemsTextAndAdvice) {
  const Folder folder;
  EXPECT_NE(message_of([&] {
              write_file(folder / "none/a.txt", "x");
            }).find("No such file or directory; create the folder"),
            std::string::npos);
  EXPECT_NE(message_of([&] { write_file(folder / "", "x"); }).find("Is a directory"), std::string::npos);
  if (fs::exists("/dev/full")) {
    EXPECT_NE(
        message_of([] { write_file("/dev/full", "x"); }).find("No space left on device; free some space"),
        std::string::npos);
  }
  if (geteuid() != 0) {
    fs::permissions(folder / "", fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_NE(message_of([&] { write_file(folder / "a.txt", "x"); }).find("Permission denied"),
              std::string::npos);
    fs::permissions(folder / "", fs::perms::owner_all);
  }
}

// A limit on the size of files in a child process stands for a disk that becomes full.
TEST(AtomicFile, NothingIsLeftWhenTheDiskIsFull) {
  const Folder folder;
  const auto a = generate(Context::host(1), "poisson-2d", {{"n", 60}});
  write_file(folder / "a.mtx", "old");
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto context = Context::host(1);
    const bool text = message_of([&] {
                        write_matrix_market(*context, folder / "a.mtx", a);
                      }).find("File too large") != std::string::npos;
    const bool binary = message_of([&] {
                          write_pbin(*context, folder / "a.pbin", a);
                        }).find("File too large") != std::string::npos;
    _exit(text && binary ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(slurp(folder / "a.mtx"), "old");
  EXPECT_EQ(folder.files(), 1u);
}

// While the file is written, a folder of its name is made, so that the rename fails.
TEST(AtomicFile, NothingIsLeftWhenTheRenameFails) {
  const Folder folder;
  AtomicFile file(folder / "a.txt");
  file.write("new");
  fs::create_directory(folder / "a.txt");
  EXPECT_NE(message_of([&] { file.commit(); }).find("cannot write"), std::string::npos);
  EXPECT_EQ(folder.files(), 1u) << "the temporary file is still there";
  EXPECT_TRUE(fs::is_directory(folder / "a.txt"));
}

TEST(AtomicFile, ALinkThatLeadsNowhereIsRefused) {
  const Folder folder;
  fs::create_symlink("missing.txt", folder / "link.txt");
  const std::string message = message_of([&] { write_file(folder / "link.txt", "new"); });
  EXPECT_NE(message.find("missing.txt"), std::string::npos) << message;
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_FALSE(fs::exists(folder / "missing.txt"));
  EXPECT_EQ(folder.files(), 1u);
}

// Root is refused too, although root could write to the file.
TEST(AtomicFile, AReadOnlyFileIsRefused) {
  const Folder folder;
  write_file(folder / "a.txt", "old");
  fs::create_symlink("a.txt", folder / "link.txt");
  chmod((folder / "a.txt").c_str(), 0444);
  for (const char* name : {"a.txt", "link.txt"}) {
    const std::string message = message_of([&] { write_file(folder / name, "new"); });
    EXPECT_NE(message.find("read-only"), std::string::npos) << message;
  }
  EXPECT_EQ(slurp(folder / "a.txt"), "old");
  chmod((folder / "a.txt").c_str(), 0644);
  write_file(folder / "a.txt", "new");
  EXPECT_EQ(slurp(folder / "a.txt"), "new");
}

// A named pipe would wait until a program reads it. A pipe of the shell has a reader already.
TEST(AtomicFile, ANamedPipeIsRefusedAndAPipeIsWrittenTo) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string message = message_of([&] { write_file(folder / "pipe", "new"); });
  EXPECT_NE(message.find("named pipe"), std::string::npos) << message;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  write_file("/dev/fd/" + std::to_string(ends[1]), "text");
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace protean::test
