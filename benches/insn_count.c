/* A TCG plugin for QEMU: keeps the number of guest instructions executed since reset in a file that is mapped into
 * memory, so that whoever drives the guest reads it at any moment: a little-endian 64-bit number for each virtual CPU.
 *
 *     qemu-system-x86_64 -plugin build/insn_count.so,out=FILE ...
 *
 * Counts whole translation blocks as they are entered: with one virtual CPU in the translated code itself, with several by a
 * call, which knows whose it is and takes longer. The declarations below are the part of QEMU's plugin API (version 1, QEMU 4.2 and later) that is used; Debian
 * packages no header for it. */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE_ADD_U64 0

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info {
    const char *target_name;
    struct {
        int min, current;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus, max_vcpus;
    } system;
};
typedef void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*entered)(unsigned vcpu, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation, void *counter, uint64_t addend);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, entered, int flags, void *data);

EXPORT int qemu_plugin_version = 1;

static uint64_t *count;
static unsigned vcpus = 1;

static void on_entry(unsigned vcpu, void *instructions) {
    /* One writer each. */
    if (vcpu < vcpus) count[vcpu] += (uintptr_t)instructions;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(block);
    if (vcpus == 1)
        qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, count, instructions);
    else
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_entry, 0, (void *)instructions);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv) {
    if (info->system_emulation && info->system.smp_vcpus > 1) vcpus = info->system.smp_vcpus;
    const char *path = NULL;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) path = argv[i] + 4;
    }
    if (!path) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, vcpus * sizeof *count) != 0) return -1;
    count = mmap(NULL, vcpus * sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (count == MAP_FAILED) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
