// SPDX-License-Identifier: GPL-2.0-only
/* A device, /dev/echo, that has what was written to it last. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>

static char echo_text[PAGE_SIZE];
static size_t echo_len;
static DEFINE_MUTEX(echo_lock);

static ssize_t echo_read(struct file *file, char __user *to, size_t len,
			 loff_t *at)
{
	ssize_t done;

	mutex_lock(&echo_lock);
	done = simple_read_from_buffer(to, len, at, echo_text, echo_len);
	mutex_unlock(&echo_lock);
	return done;
}

static ssize_t echo_write(struct file *file, const char __user *from, size_t len,
			  loff_t *at)
{
	loff_t start = 0;
	ssize_t done;

	mutex_lock(&echo_lock);
	done = simple_write_to_buffer(echo_text, sizeof(echo_text), &start, from,
				      len);
	if (done >= 0)
		echo_len = done;
	mutex_unlock(&echo_lock);
	return done;
}

static const struct file_operations echo_operations = {
	.owner = THIS_MODULE,
	.read = echo_read,
	.write = echo_write,
	.llseek = default_llseek,
};

static struct miscdevice echo_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "echo",
	.fops = &echo_operations,
};

module_misc_device(echo_device);
MODULE_DESCRIPTION("An example of a device");
MODULE_LICENSE("GPL");
