// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtio transport of the hosting program. A device is a struct tane_virtio
 * in memory that both sides share; its registers are fields, its doorbell is
 * the host operation notify(), its interrupt line a bit of the virtual CPU.
 * Devices come and go: the host changes tane_virtio.state and raises
 * TANE_IRQ_HOTPLUG.
 */
#include <linux/bitfield.h>
#include <linux/interrupt.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <linux/workqueue.h>
#include <asm/machine.h>

struct tane_device {
	struct virtio_device vdev;
	struct platform_device *parent;
	struct tane_virtio *regs;
	unsigned int slot;
};

#define to_tane_device(dev) container_of(dev, struct tane_device, vdev)

static struct tane_device *tane_devices[TANE_MAX_DEVICES];

static u64 tane_get_features(struct virtio_device *vdev)
{
	return to_tane_device(vdev)->regs->device_features;
}

static int tane_finalize_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	if (!__virtio_test_bit(vdev, VIRTIO_F_VERSION_1))
		return -EINVAL;
	to_tane_device(vdev)->regs->driver_features = vdev->features;
	return 0;
}

static void tane_get_config(struct virtio_device *vdev, unsigned int offset,
			    void *buf, unsigned int len)
{
	memcpy(buf, to_tane_device(vdev)->regs->config + offset, len);
}

static void tane_set_config(struct virtio_device *vdev, unsigned int offset,
			    const void *buf, unsigned int len)
{
	memcpy(to_tane_device(vdev)->regs->config + offset, buf, len);
}

static u32 tane_config_generation(struct virtio_device *vdev)
{
	return READ_ONCE(to_tane_device(vdev)->regs->config_generation);
}

static u8 tane_get_status(struct virtio_device *vdev)
{
	return READ_ONCE(to_tane_device(vdev)->regs->status);
}

static void tane_set_status(struct virtio_device *vdev, u8 status)
{
	struct tane_device *dev = to_tane_device(vdev);

	/* Whatever the driver wrote before it. */
	virt_store_release(&dev->regs->status, status);
	tane_host(notify, dev->slot, TANE_NOTIFY_STATUS, 0, 0);
}

static void tane_reset(struct virtio_device *vdev)
{
	tane_set_status(vdev, 0);
}

static bool tane_notify(struct virtqueue *vq)
{
	struct tane_device *dev = to_tane_device(vq->vdev);

	tane_host(notify, dev->slot, vq->index, 0, 0);
	return true;
}

static irqreturn_t tane_device_interrupt(int irq, void *data)
{
	struct tane_device *dev = data;
	struct virtqueue *vq;
	u32 isr;

	/* Locked even on one CPU: the host sets bits from its own threads. */
	asm volatile("xchgl %0, %1"
		     : "=r" (isr), "+m" (dev->regs->isr) : "0" (0) : "memory");
	if (isr & 2)
		virtio_config_changed(&dev->vdev);
	if (isr & 1)
		virtio_device_for_each_vq(&dev->vdev, vq)
			vring_interrupt(irq, vq);
	return isr ? IRQ_HANDLED : IRQ_NONE;
}

static void tane_del_vqs(struct virtio_device *vdev)
{
	struct tane_device *dev = to_tane_device(vdev);
	struct virtqueue *vq, *next;

	free_irq(TANE_IRQ_DEVICE(dev->slot), dev);
	list_for_each_entry_safe(vq, next, &vdev->vqs, list) {
		dev->regs->queues[vq->index].ready = 0;
		vring_del_virtqueue(vq);
	}
}

static struct virtqueue *tane_setup_vq(struct tane_device *dev,
				       unsigned int index,
				       struct virtqueue_info *info)
{
	struct tane_virtio_queue *queue = &dev->regs->queues[index];
	struct virtqueue *vq;

	if (index >= dev->regs->nr_queues || !queue->size_max)
		return ERR_PTR(-ENOENT);
	vq = vring_create_virtqueue(index, queue->size_max, SMP_CACHE_BYTES,
				    &dev->vdev, true, true, info->ctx,
				    tane_notify, info->callback, info->name);
	if (!vq)
		return ERR_PTR(-ENOMEM);
	vq->num_max = queue->size_max;
	queue->desc = virtqueue_get_desc_addr(vq);
	queue->driver = virtqueue_get_avail_addr(vq);
	queue->device = virtqueue_get_used_addr(vq);
	queue->size = virtqueue_get_vring_size(vq);
	queue->ready = 1;
	return vq;
}

static int tane_find_vqs(struct virtio_device *vdev, unsigned int nr,
			 struct virtqueue *vqs[], struct virtqueue_info infos[],
			 struct irq_affinity *desc)
{
	struct tane_device *dev = to_tane_device(vdev);
	unsigned int i, index = 0;
	int error;

	error = request_irq(TANE_IRQ_DEVICE(dev->slot), tane_device_interrupt, 0,
			    dev_name(&vdev->dev), dev);
	if (error)
		return error;
	for (i = 0; i < nr; i++) {
		if (!infos[i].name) {
			vqs[i] = NULL;
			continue;
		}
		vqs[i] = tane_setup_vq(dev, index++, &infos[i]);
		if (IS_ERR(vqs[i])) {
			error = PTR_ERR(vqs[i]);
			tane_del_vqs(vdev);
			return error;
		}
	}
	return 0;
}

static const char *tane_bus_name(struct virtio_device *vdev)
{
	return dev_name(&to_tane_device(vdev)->parent->dev);
}

static const struct virtio_config_ops tane_config_ops = {
	.get			= tane_get_config,
	.set			= tane_set_config,
	.generation		= tane_config_generation,
	.get_status		= tane_get_status,
	.set_status		= tane_set_status,
	.reset			= tane_reset,
	.find_vqs		= tane_find_vqs,
	.del_vqs		= tane_del_vqs,
	.get_features		= tane_get_features,
	.finalize_features	= tane_finalize_features,
	.bus_name		= tane_bus_name,
};

static void tane_release(struct device *device)
{
	kfree(to_tane_device(dev_to_virtio(device)));
}

static int tane_bind(unsigned int slot)
{
	struct tane_virtio *regs = &tane_boot->virtio[slot];
	struct tane_device *dev;
	int error;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	/* Its name tells the host where in sysfs to find its disk. */
	dev->parent = platform_device_register_simple("tane-virtio", slot,
						      NULL, 0);
	if (IS_ERR(dev->parent)) {
		error = PTR_ERR(dev->parent);
		kfree(dev);
		return error;
	}
	dev->regs = regs;
	dev->slot = slot;
	dev->vdev.dev.parent = &dev->parent->dev;
	dev->vdev.dev.release = tane_release;
	dev->vdev.config = &tane_config_ops;
	dev->vdev.id.device = regs->device_id;
	error = register_virtio_device(&dev->vdev);
	if (error) {
		platform_device_unregister(dev->parent);
		put_device(&dev->vdev.dev);
		return error;
	}
	tane_devices[slot] = dev;
	return 0;
}

static void tane_unbind(unsigned int slot)
{
	struct tane_device *dev = tane_devices[slot];
	struct platform_device *parent;

	if (!dev)
		return;
	tane_devices[slot] = NULL;
	parent = dev->parent;
	unregister_virtio_device(&dev->vdev);
	platform_device_unregister(parent);
}

static void tane_set_state(struct tane_virtio *regs, u32 state)
{
	/* The host reads error after it. */
	virt_store_release(&regs->state, state);
	tane_host(notify, regs - tane_boot->virtio, TANE_NOTIFY_STATE, 0, 0);
}

static void tane_hotplug_work(struct work_struct *work)
{
	unsigned int slot;
	int error;

	for (slot = 0; slot < TANE_MAX_DEVICES; slot++) {
		struct tane_virtio *regs = &tane_boot->virtio[slot];

		/* The host wrote the registers before it. */
		switch (virt_load_acquire(&regs->state)) {
		case TANE_VIRTIO_PRESENT:
			error = tane_bind(slot);
			regs->error = -error;
			tane_set_state(regs, error ? TANE_VIRTIO_FAILED :
						     TANE_VIRTIO_BOUND);
			break;
		case TANE_VIRTIO_REMOVE:
			tane_unbind(slot);
			tane_set_state(regs, TANE_VIRTIO_EMPTY);
			break;
		}
	}
}

static DECLARE_WORK(tane_hotplug_item, tane_hotplug_work);

static void tane_hotplug_interrupt(void)
{
	schedule_work(&tane_hotplug_item);
}

/* Devices that are there from the start are ready before process 1 runs. */
static int __init tane_virtio_init(void)
{
	tane_hotplug = tane_hotplug_interrupt;
	tane_hotplug_work(NULL);
	return 0;
}
late_initcall(tane_virtio_init);
