package main

import (
	"encoding/json"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// write is something that the scheduler asked its client to change.
type write struct {
	verb, resource, key string
	body                json.RawMessage
	// node is set for bindings.
	node string
}

// writes are kept in order; several goroutines may add to them.
type writes struct {
	mu      sync.Mutex
	found   []write
	version int
}

func (w *writes) add(one write, action clienttesting.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.resource = action.GetResource().Resource
	w.found = append(w.found, one)
}

// addObject keeps an object that is created or updated and returns it as an API server would, and as
// JSON unless it is a binding.
func (w *writes) addObject(action clienttesting.CreateAction) (runtime.Object, json.RawMessage) {
	object := action.GetObject().DeepCopyObject()
	if binding, ok := object.(*v1.Binding); ok {
		w.add(write{verb: "create", key: binding.Namespace + "/" + binding.Name, node: binding.Target.Name}, action)
		return object, nil
	}
	named, ok := object.(metav1.Object)
	if !ok {
		return object, nil
	}
	w.mu.Lock()
	w.version++
	named.SetResourceVersion(strconv.Itoa(firstVersion + w.version))
	w.mu.Unlock()
	if named.GetName() == "" {
		named.SetName(named.GetGenerateName() + "made")
	}
	if named.GetUID() == "" {
		named.SetUID("uid-made")
	}
	body, _ := json.Marshal(object)
	w.add(write{verb: action.GetVerb(), key: named.GetNamespace() + "/" + named.GetName(), body: body}, action)
	return object, body
}

// take returns the writes and forgets them.
func (w *writes) take() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.found
	w.found = nil
	return found
}

// deletedPods are the pods among the writes that were deleted, sorted.
func deletedPods(wrote []write) []string {
	found := &names{}
	for _, one := range wrote {
		if one.verb == "delete" && one.resource == "pods" {
			found.add(one.key)
		}
	}
	return found.take()
}
