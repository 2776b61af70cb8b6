package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	runGrace = 5 * time.Second
	maxSteps = 1000
)

// run lets the whole scheduler try every waiting pod once, in the order of its queue, and answers
// what it wrote in each step: bindings, conditions, nominations, claims, evictions and events. What
// was written is delivered by the informers before the next step, as an API server would.
func run(asked *request) (answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	found, err := newCluster(ctx, asked)
	if err != nil {
		return nil, err
	}
	found.wrote.take()
	steps := []answer{}
	for len(found.sched.SchedulingQueue.PodsInActiveQ()) > 0 {
		if len(steps) == maxSteps {
			return nil, fmt.Errorf("more than %d steps", maxSteps)
		}
		found.sched.ScheduleOne(ctx)
		if err := found.settle(); err != nil {
			return nil, err
		}
		wrote := found.wrote.take()
		if err := found.deliver(wrote); err != nil {
			return nil, err
		}
		steps = append(steps, describeWrites(wrote, found.recorded.take()))
	}
	return answer{"steps": steps, "waiting": found.waitingOnPermit()}, nil
}

// settle returns when every binding cycle has ended or waits in Permit.
func (c *cluster) settle() error {
	for end := time.Now().Add(runGrace); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if c.settled() {
			return nil
		}
	}
	return fmt.Errorf("binding cycles did not end within %v", runGrace)
}

func (c *cluster) settled() bool {
	waiting := map[string]bool{}
	for _, profile := range c.sched.Profiles {
		profile.IterateOverWaitingPods(func(pod fwk.WaitingPod) {
			// a pod that was just allowed is still listed
			if len(pod.GetPendingPlugins()) > 0 {
				waiting[string(pod.GetPod().UID)] = true
			}
		})
	}
	bound := c.recorded.scheduled()
	for uid := range c.sched.Cache.Dump().AssumedPods {
		if !waiting[uid] && !bound[uid] {
			return false
		}
	}
	return true
}

func (c *cluster) waitingOnPermit() []string {
	found := &names{}
	for _, profile := range c.sched.Profiles {
		profile.IterateOverWaitingPods(func(pod fwk.WaitingPod) {
			found.add(pod.GetPod().Namespace + "/" + pod.GetPod().Name)
		})
	}
	return found.take()
}

// deliver brings what was written back through the informers.
func (c *cluster) deliver(wrote []write) error {
	for _, one := range wrote {
		var err error
		switch {
		case one.verb == "delete":
			err = c.factory.remove(one.resource, one.key)
		case one.node != "":
			err = c.factory.change(one.resource, one.key, func(object any) error {
				object.(*v1.Pod).Spec.NodeName = one.node
				return nil
			})
		case one.verb == "patch":
			err = c.factory.change(one.resource, one.key, func(object any) error { return patch(object, one.body) })
		default:
			err = c.factory.put(one.resource, one.body)
		}
		if err != nil {
			return fmt.Errorf("delivering the %s of %s %s: %w", one.verb, one.resource, one.key, err)
		}
	}
	return nil
}

func patch(object any, change []byte) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if body, err = strategicpatch.StrategicMergePatch(body, change, object); err != nil {
		return err
	}
	value := reflect.ValueOf(object).Elem()
	value.Set(reflect.Zero(value.Type()))
	return json.Unmarshal(body, object)
}

// describeWrites groups the writes of a step by what they are about.
func describeWrites(wrote []write, events []map[string]string) answer {
	described := answer{}
	under := func(part, key string) answer {
		if described[part] == nil {
			described[part] = answer{}
		}
		parts := described[part].(answer)
		if parts[key] == nil {
			parts[key] = answer{}
		}
		return parts[key].(answer)
	}
	deleted := []string{}
	for _, one := range wrote {
		switch {
		case one.node != "":
			under("bound", one.key)["node"] = one.node
		case one.verb == "delete":
			deleted = append(deleted, one.key)
		case one.verb == "patch":
			var patch struct{ Status answer }
			_ = json.Unmarshal(one.body, &patch)
			for field, value := range patch.Status {
				if !strings.HasPrefix(field, "$") {
					under(one.resource, one.key)[field] = value
				}
			}
		case one.resource == "resourceclaims":
			var claim struct{ Status answer }
			_ = json.Unmarshal(one.body, &claim)
			about := under(one.resource, one.key) // also of a claim that lost everything
			clear(about)
			for field, value := range claim.Status {
				about[field] = value
			}
		}
	}
	if len(deleted) > 0 {
		described["deleted"] = deleted
	}
	for _, event := range events {
		under("events", event["regarding"])[event["reason"]] = event["note"]
	}
	return described
}
